"""Tables that list photos: CSV files with the columns path, and label, group, and x, y, width, height."""

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from fewset.core.errors import UserError
from fewset.data.images.decoding import Box
from fewset.data.images.importers.csv import table_rows
from fewset.data.images.sources import read_image_file

SUFFIXES = (".csv", ".tsv")
_BOX = ("x", "y", "width", "height")


class Listed(NamedTuple):
    """A photo of a table."""

    file: Path
    name: str
    """As it is listed; that of a part of a photo says which, as a media fragment: "1.jpg#xywh=0,0,50,40"."""
    label: str = ""
    group: str = ""
    box: Box | None = None


def is_table(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.is_dir()


def read_table(path: Path, labelled: bool = False) -> list[Listed]:
    """The photos that a CSV file lists; their paths start at its folder."""
    columns = ("path", "label") if labelled else ("path",)
    if not path.is_file():
        raise UserError(f"there is no file {path}; expected a CSV file with the columns {', '.join(columns)}")
    try:
        content = read_image_file(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error}") from None
    rows = []
    for line, cells in table_rows(content, str(path), columns, optional=("group", *_BOX)):
        name, label = cells[0], cells[1] if labelled else ""
        group, box = cells[len(columns)], _box(cells[len(columns) + 1 :], f"{path}, line {line}")
        part = "" if box is None else f"#xywh={','.join(f'{number:.10g}' for number in box)}"
        rows.append(Listed(path.parent / name, name + part, label, group, box))
    if not rows:
        raise UserError(f"{path} lists no photos; expected a line for each under {','.join(columns)!r}")
    return rows


def _box(cells: Sequence[str], where: str) -> Box | None:
    """The part of a photo in pixels from the upper left corner; None for a whole photo."""
    if not any(cells):
        return None
    try:
        box = Box(*map(float, cells))
    except ValueError:
        box = Box(0, 0, 0, 0)
    if not (all(map(isfinite, box)) and box.width > 0 and box.height > 0):
        raise UserError(
            f"{where}: {', '.join(_BOX)} are {', '.join(map(repr, cells))}, expected four numbers of pixels, "
            "or four empty cells for the whole photo"
        )
    return box
