"""The paper's own numbers, to stand beside ours; `paper.toml` holds them as they are printed."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from fewset.report.loading import LoadedResult
from fewset.report.tables import Estimate


@dataclass(frozen=True)
class PaperNumber:
    """In percent, as printed: with so many decimals, and with an interval only where the paper gives one."""

    mean: float
    ci95: float | None
    cited: bool = False  # by the authors, from another paper
    decimals: int = 2

    @property
    def estimate(self) -> Estimate:
        """As a cell of a table; marked with a star where it is cited."""
        half = None if self.ci95 is None else self.ci95 / 100
        return Estimate(self.mean / 100, half, self.decimals, "*" if self.cited else "")


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


_TRANSDUCTIVE = {
    ("ProtoNet", "semi-protonet"): "Semi-ProtoNet",
    ("FEAT", "dagger"): "FEAT†",
    ("FEAT", "double-dagger"): "FEAT‡",
}


def number_for(result: LoadedResult) -> tuple[PaperNumber, PaperSource] | None:
    """The paper's number for what a result is on: the same set, backbone, setting, ways, shots and queries.

    None where the paper has no such number. So it is for every cross-domain and low-shot result: the paper
    names no backbone for the one, and the other is on features that only its authors have.
    """
    recipe = result.recipe
    backbone = recipe.get("model.backbone", "")
    trained_shot = recipe.get("train.shot") if recipe.get("train.epochs") else result.shot
    trained_alike = (recipe.get("data.set"), trained_shot) == (result.data, result.shot)
    of_the_paper = (result.split, result.domain, result.way, result.query) == ("test", None, 5, 15)
    if not trained_alike or not of_the_paper or recipe.get("model.transductive"):
        return None
    panel, row, column = "", result.method, f"{result.shot}-shot {result.way}-way"
    match result.setting:
        case "standard":
            study = "benchmark"
        case "transductive":
            study, row = "transductive", _TRANSDUCTIVE.get((result.method, result.variant or ""), "")
        case "generalised":
            study, panel, column = "generalised", f"{result.shot}-shot learning", "COMBINED"
        case _:
            return None
    source = paper_source(study, result.data, backbone)
    number = paper_number(study, result.data, backbone, panel, row, column)
    if source is None or number is None or (source.data, source.backbone) != (result.data, backbone):
        return None
    return number, source


def cited_note(rows: Iterable[str]) -> str:
    """What the star says, at the rows that have one."""
    return f"* {', '.join(rows)}: cited in the paper from elsewhere, not run by its authors."


def _table(study: str, data: str, backbone: str) -> _Table | None:
    own, defaults = _tables()
    return own.get((study, data, backbone), defaults.get(study))


@cache
def _tables() -> tuple[dict[tuple[str, str, str], _Table], dict[str, _Table]]:
    """The tables by study, data and backbone, and the default one of each study."""
    text = resources.files("fewset.paper").joinpath("numbers.toml").read_text(encoding="utf-8")
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
