"""The paper's own numbers, to stand beside ours; `paper.toml` holds them as they are printed."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple


@dataclass(frozen=True)
class PaperNumber:
    """In percent, as printed: with so many decimals, and with an interval only where the paper gives one."""

    mean: float
    ci95: float | None
    cited: bool = False  # by the authors, from another paper
    decimals: int = 2


@dataclass(frozen=True)
class PaperSource:
    """Where in the paper the numbers of a study are, and what they are on."""

    where: str
    on: str
    data: str
    backbone: str


class _Place(NamedTuple):
    panel: str
    row: str
    column: str


class _Table(NamedTuple):
    source: PaperSource
    numbers: dict[_Place, PaperNumber]


def paper_number(
    study: str, data: str, backbone: str, panel: str, row: str, column: str
) -> PaperNumber | None:
    """The number in the paper's table for this data and backbone, or in the study's default table."""
    table = _table(study, data, backbone)
    return None if table is None else table.numbers.get(_Place(panel, row, column))


def paper_source(study: str, data: str, backbone: str) -> PaperSource | None:
    """What `paper_number` looks into; None where the paper prints no numbers."""
    table = _table(study, data, backbone)
    return None if table is None else table.source


def _table(study: str, data: str, backbone: str) -> _Table | None:
    own, defaults = _tables()
    return own.get((study, data, backbone), defaults.get(study))


@cache
def _tables() -> tuple[dict[tuple[str, str, str], _Table], dict[str, _Table]]:
    """The tables by study, data and backbone, and the default one of each study."""
    text = resources.files("fewset.report").joinpath("paper.toml").read_text(encoding="utf-8")
    own, defaults = {}, {}
    for entry in tomllib.loads(text)["table"]:
        source = PaperSource(entry["where"], entry["on"], entry["data"], entry["backbone"])
        table = _Table(source, dict(_numbers(entry)))
        own[entry["study"], source.data, source.backbone] = table
        if entry.get("default", False):
            defaults[entry["study"]] = table
    return own, defaults


def _numbers(entry: dict[str, Any]) -> list[tuple[_Place, PaperNumber]]:
    return [
        (_Place(row.get("panel", ""), row["row"], column), _number(text, row.get("cited", False)))
        for row in entry["rows"]
        for column, text in zip(entry["columns"], row["numbers"], strict=True)
    ]


def _number(text: str, cited: bool) -> PaperNumber:
    mean, _, half = text.partition(" ± ")
    return PaperNumber(float(mean), float(half) if half else None, cited, len(mean.partition(".")[2]))
