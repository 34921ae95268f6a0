"""A study: the numbers of one table or figure of the paper, each with the record it came from, in a file."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isnan, nan
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args

from fewset.paper.numbers import PaperSource, paper_number, paper_source
from fewset.report.tables import Estimate
from fewset.runtime.errors import UserError
from fewset.runtime.files import write_json

FORMAT = 1

Layout = Literal["table", "lines"]


@dataclass(frozen=True)
class Cell:
    """One number: a mean over tasks and half its 95 % interval, as fractions; NaN where there is none.

    `result` is the whole record of the result file that it came from.
    """

    panel: str
    row: str
    column: str
    mean: float
    ci95: float
    result: dict[str, Any]


@dataclass(frozen=True)
class Study:
    """What a table or figure holds, and where each number stands in it. Cells may still be missing."""

    name: str  # of the files that are made of it
    title: str
    data: str
    backbone: str
    layout: Layout
    corner: str  # what the rows are
    columns_title: str  # what the columns are
    panels: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    column_keys: tuple[str, ...]  # what the paper's columns are called
    command: str
    cells: tuple[Cell, ...]
    notes: tuple[str, ...]

    def cell(self, panel: str, row: str, column: str) -> Cell | None:
        place = (panel, row, column)
        return next((cell for cell in self.cells if (cell.panel, cell.row, cell.column) == place), None)

    def ours(self, panel: str, row: str, column: str) -> Estimate | None:
        cell = self.cell(panel, row, column)
        return None if cell is None else Estimate(cell.mean, None if isnan(cell.ci95) else cell.ci95)

    def paper(self, panel: str, row: str, column: str) -> Estimate | None:
        """The paper's number for the same place; marked with a star where the paper cites it."""
        number = paper_number(self.name, self.data, self.backbone, panel, row, self.key(column))
        return None if number is None else number.estimate

    def key(self, column: str) -> str:
        """What the paper's column is called."""
        return self.column_keys[self.columns.index(column)]

    @property
    def on(self) -> str:
        """What our numbers are on."""
        return ", ".join(filter(None, (self.data, self.backbone)))

    @property
    def source(self) -> PaperSource | None:
        """Where the paper's numbers are from."""
        return paper_source(self.name, self.data, self.backbone)

    @property
    def on_the_papers_set(self) -> bool:
        """Whether the paper's numbers are on the same data, with the same backbone."""
        source = self.source
        return source is not None and (source.data, source.backbone) == (self.data, self.backbone)


_TEXTS = ("name", "title", "data", "backbone", "layout", "corner", "columns_title", "command")
_LISTS = ("panels", "rows", "columns", "column_keys", "notes")
_CELL: dict[str, tuple[type, ...]] = {
    "panel": (str,),
    "row": (str,),
    "column": (str,),
    "mean": (int, float),
    "ci95": (int, float, NoneType),
    "result": (dict,),
}
_RESULT: dict[str, tuple[type, ...]] = {
    "run": (str,),
    "tasks": (int,),
    "seed": (int,),
    "command": (str,),
    "commit": (str,),
}


def write_study(study: Study, path: Path) -> None:
    write_json(path, _without_nan({"format": FORMAT, **asdict(study)}))


def read_study(path: Path) -> Study:
    """Read and check a study file."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"there is no study file {path}; the command of the study writes it") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise _broken(path, f"cannot be read ({error})") from None
    if not isinstance(record, dict):
        raise _broken(path, "does not hold a JSON object")
    if record.get("format") != FORMAT:
        raise _broken(path, f"has format {record.get('format')!r}, expected {FORMAT}")
    fields = dict.fromkeys(_TEXTS, (str,)) | dict.fromkeys((*_LISTS, "cells"), (list,))
    _check(path, "", record, fields)
    for name in _LISTS:
        if not all(isinstance(item, str) for item in record[name]):
            raise _broken(path, f"has {name} = {record[name]!r}, expected texts")
    # Names end up in terminals, tables and pictures: one line of visible characters each.
    texts = [text for name in (*_TEXTS, *_LISTS) for text in _listed(record[name])]
    for text in texts:
        if not text.isprintable():
            raise _broken(path, f"has control characters in {text!r}")
    if record["layout"] not in get_args(Layout):
        raise _broken(path, f"has layout {record['layout']!r}, expected {' or '.join(get_args(Layout))}")
    values: dict[str, Any] = {name: record[name] for name in _TEXTS}
    values |= {name: tuple(record[name]) for name in _LISTS}
    study = Study(**values, cells=tuple(_cell(path, cell) for cell in record["cells"]))
    _check_places(path, study)
    return study


def _cell(path: Path, record: Any) -> Cell:
    if not isinstance(record, dict):
        raise _broken(path, f"has {record!r} as a cell, expected an object")
    _check(path, "a cell ", record, _CELL)
    _check(path, "the result of a cell ", record["result"], _RESULT)
    mean, ci95 = float(record["mean"]), nan if record["ci95"] is None else float(record["ci95"])
    if not 0 <= mean <= 1 or ci95 < 0:
        raise _broken(path, f"has {mean} ± {ci95} in a cell, expected a fraction of 0..1")
    return Cell(record["panel"], record["row"], record["column"], mean, ci95, record["result"])


def _check_places(path: Path, study: Study) -> None:
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", study.name):
        raise _broken(path, f"has the name {study.name!r}, expected small letters, digits and hyphens")
    for name in ("panels", "rows", "columns"):
        items = getattr(study, name)
        if not items or len(set(items)) < len(items):
            raise _broken(path, f"has {name} = {list(items)!r}, expected one or more, all different")
    if len(study.column_keys) != len(study.columns):
        raise _broken(path, f"has {len(study.column_keys)} column_keys for {len(study.columns)} columns")
    places = [(cell.panel, cell.row, cell.column) for cell in study.cells]
    for panel, row, column in places:
        if panel not in study.panels or row not in study.rows or column not in study.columns:
            raise _broken(path, f"has a cell at {(panel, row, column)}, which is not a place of the study")
        if places.count((panel, row, column)) > 1:
            raise _broken(path, f"has several cells at {(panel, row, column)}")


def _check(path: Path, what: str, record: dict[str, Any], fields: Mapping[str, tuple[type, ...]]) -> None:
    for name, kinds in fields.items():
        if name not in record:
            raise _broken(path, f"lacks {name}" if not what else f"holds {what}that lacks {name}")
        if type(record[name]) not in kinds:  # not isinstance: true is no number
            expected = " or ".join("null" if kind is NoneType else kind.__name__ for kind in kinds)
            raise _broken(path, f"has {name} = {record[name]!r} where {expected} is expected")


def _listed(value: str | list[str]) -> list[str]:
    return value if isinstance(value, list) else [value]


def _without_nan(value: Any) -> Any:
    """JSON has no NaN: it is written as null."""
    match value:
        case dict():
            return {key: _without_nan(item) for key, item in value.items()}
        case list() | tuple():
            return [_without_nan(item) for item in value]
        case float() if isnan(value):
            return None
    return value


def _broken(path: Path, what: str) -> UserError:
    return UserError(f"{path} {what}; remove it, and the command of the study writes it anew")
