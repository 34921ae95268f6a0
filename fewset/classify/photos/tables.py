"""Tables that list photos: CSV files with the columns path, and label, group, and x, y, width, height."""

from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from math import isfinite
from pathlib import Path
from typing import NamedTuple

from fewset.core.errors import UserError
from fewset.data.images.decoding import Box
from fewset.data.images.importers.csv import streamed_rows, table_encoding, table_rows
from fewset.data.images.sources import read_image_file
from fewset.io.reading import open_file

SUFFIXES = (".csv", ".tsv")
_BOX = ("x", "y", "width", "height")
_OPTIONAL = ("group", *_BOX)


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
    rows = [
        _listed(path, row, labelled) for row in table_rows(content, str(path), columns, optional=_OPTIONAL)
    ]
    if not rows:
        raise UserError(f"{path} lists no photos; expected a line for each under {','.join(columns)!r}")
    return rows


def streamed_table(path: Path) -> Iterator[Listed]:
    """The photos that a CSV file of any size lists."""
    with open_file(path) as file:
        encoding = table_encoding(file.peek(2))
        with TextIOWrapper(file, encoding, newline="") as lines:
            for row in streamed_rows(lines, str(path), ("path",), optional=_OPTIONAL):
                yield _listed(path, row)


def _listed(path: Path, row: tuple[int, list[str]], labelled: bool = False) -> Listed:
    line, cells = row
    name, label = cells[0], cells[1] if labelled else ""
    group, *numbers = cells[1 + labelled :]
    box = _box(numbers, f"{path}, line {line}")
    part = "" if box is None else f"#xywh={','.join(f'{number:.10g}' for number in box)}"
    return Listed(path.parent / name, name + part, label, group, box)


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
