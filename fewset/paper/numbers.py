"""The paper's own numbers, to stand beside ours; `numbers.toml` holds them as they are printed."""

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from fewset.report.loading import LoadedResult
from fewset.report.tables import Column, Estimate, Table

_NOT_AS_IN_THE_PAPER = (
    (
        "model.test_time_flip",
        True,
        "embed each image and its mirror image and take the mean; the paper's do not",
    ),
    ("model.backbone_options.pool", "average", "end in an average over positions; the paper's in a maximum"),
    (
        "model.adapter",
        "bilstm",
        "two directions of half the width side by side, as in the authors' code; the paper's adds two "
        "full ones",
    ),
    ("model.adapter_options.norm", True, "a LayerNorm at the end, which the paper's do not have"),
    ("model.adapter_options.zero_start", True, "a start that adapts nothing; the paper's start at random"),
)


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper: where it is, what it is on, and its numbers by panel, row and column.

    The numbers are as printed: with the same decimals, with an interval only where the paper gives one, and
    with a star where its authors cite them from another paper.
    """

    where: str
    on: str
    data: str
    backbone: str
    numbers: dict[tuple[str, str, str], Estimate]


def paper_table(study: str, data: str, backbone: str) -> PaperTable | None:
    """The paper's table for this data and backbone, or the study's default; None where it prints none."""
    own, defaults = _tables()
    return own.get((study, data, backbone), defaults.get(study))


_TRANSDUCTIVE = {
    ("ProtoNet", "semi-protonet"): "Semi-ProtoNet",
    ("FEAT", "dagger"): "FEAT†",
    ("FEAT", "double-dagger"): "FEAT‡",
}


def number_for(result: LoadedResult) -> tuple[Estimate, PaperTable] | None:
    """The paper's number, and its table, for what a result is on.

    That is the same set, backbone, setting, ways, shots and queries. None where the paper has no such number.
    So it is for every cross-domain and low-shot result: the paper names no backbone for the one, and the
    other is on features that only its authors have.
    """
    recipe, record = result.recipe, result.record
    backbone = recipe.get("model.backbone", "")
    trained_shot = recipe.get("train.shot") if recipe.get("train.epochs") else record.shot
    trained_alike = (recipe.get("data.set"), trained_shot) == (record.data, record.shot)
    of_the_paper = (record.split, record.domain, record.way, record.query) == ("test", None, 5, 15)
    inductive = not recipe.get("model.transductive") and recipe.get("model.head") != "semi_prototype"
    if not trained_alike or not of_the_paper or not (inductive or record.setting == "transductive"):
        return None
    if recipe.get("model.adapter_options.graph") == "similarity":  # the paper's graph is of the labels
        return None
    row = record.method.removesuffix(", label graph")
    panel, column = "", f"{record.shot}-shot {record.way}-way"
    match record.setting:
        case "standard":
            study = "benchmark"
        case "transductive":
            study, row = "transductive", _TRANSDUCTIVE.get((record.method, record.variant or ""), "")
        case "generalised":
            study, panel, column = "generalised", f"{record.shot}-shot learning", "COMBINED"
        case _:
            return None
    table = paper_table(study, record.data, backbone)
    if table is None or (table.data, table.backbone) != (record.data, backbone):
        return None
    number = table.numbers.get((panel, row, column))
    return None if number is None else (number, table)


def cited_note(rows: Iterable[str]) -> str:
    """The note on the star, for the rows that have one."""
    return f"* {', '.join(rows)}: cited in the paper from elsewhere, not run by its authors."


def with_paper(table: Table, results: Sequence[LoadedResult]) -> Table:
    """The table of these results with a column of the paper's numbers, if it has any."""
    numbers = [number_for(result) for result in results]
    if not any(numbers):
        return table
    place = 1 + [column.key for column in table.columns].index("accuracy")

    def beside(cells: Sequence[Any], cell: Any) -> tuple[Any, ...]:
        return *cells[:place], cell, *cells[place:]

    found = [(result, *number) for result, number in zip(results, numbers, strict=True) if number]
    sources = dict.fromkeys(f"{source.where}, on {source.on}" for _, _, source in found)
    cited = dict.fromkeys(result.record.method for result, number, _ in found if number.mark)
    notes = [f"Paper: {source}." for source in sources] + ([cited_note(cited)] if cited else [])
    for key, value, what in _NOT_AS_IN_THE_PAPER:
        differing = [result.record.method for result, *_ in found if result.recipe.get(key) == value]
        if differing:
            methods = f"{', '.join(dict.fromkeys(differing))}:" if key.startswith("model.adapter") else "Ours"
            notes.append(f"{methods} {what} ({key}).")
    cells = [number and number[0] for number in numbers]
    return replace(
        table,
        columns=beside(table.columns, Column("Paper", "paper", True)),
        rows=tuple(beside(row, cell) for row, cell in zip(table.rows, cells, strict=True)),
        notes=(*table.notes, *notes),
    )


@cache
def _tables() -> tuple[dict[tuple[str, str, str], PaperTable], dict[str, PaperTable]]:
    """The tables by study, data and backbone, and the default one of each study."""
    text = resources.files("fewset.paper").joinpath("numbers.toml").read_text(encoding="utf-8")
    own, defaults = {}, {}
    for entry in tomllib.loads(text)["table"]:
        numbers = {
            (row.get("panel", ""), row["row"], column): _number(printed, row.get("cited", False))
            for row in entry["rows"]
            for column, printed in zip(entry["columns"], row["numbers"], strict=True)
        }
        table = PaperTable(entry["where"], entry["on"], entry["data"], entry["backbone"], numbers)
        own[entry["study"], table.data, table.backbone] = table
        if entry.get("default", False):
            defaults[entry["study"]] = table
    return own, defaults


def _number(printed: str, cited: bool) -> Estimate:
    mean, _, half = printed.partition(" ± ")
    decimals = len(mean.partition(".")[2])
    return Estimate(float(mean) / 100, float(half) / 100 if half else None, decimals, "*" if cited else "")
