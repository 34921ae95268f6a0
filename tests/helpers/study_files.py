"""Studies made up by code. Every number is another one, so that no two places can be mixed up."""

from dataclasses import replace
from typing import Any

from fewset.paper.render import Cell, Study

COLUMNS = ("1-shot 5-way", "5-shot 5-way")


def record(**fields: Any) -> dict[str, Any]:
    """What is looked at of a result file."""
    return {
        "run": "strokes-feat",
        "tasks": 10_007,
        "seed": 3,
        "command": "fewset eval runs/strokes-feat",
        "commit": "0123456789abcdef",
        "way": 5,
    } | fields


def make_study(**changes: Any) -> Study:
    """A complete study; 0.5 and a hundredth more for each place, in order."""
    study = Study(
        name="heads",
        title="Number of heads",
        data="strokes",
        backbone="conv4",
        layout="table",
        corner="heads",
        columns_title="",
        panels=("",),
        rows=("1", "2", "8"),
        columns=COLUMNS,
        column_keys=COLUMNS,
        command="fewset ablate heads",
        cells=(),
        notes=(),
    )
    study = replace(study, **changes)
    if "columns" in changes and "column_keys" not in changes:
        study = replace(study, column_keys=study.columns)
    places = [
        (panel, row, column) for panel in study.panels for row in study.rows for column in study.columns
    ]
    cells = tuple(
        Cell(*place, mean=0.5 + number / 100, ci95=0.001 + number / 10_000, result=record())
        for number, place in enumerate(places)
    )
    return study if "cells" in changes else replace(study, cells=cells)


def generalised_study() -> Study:
    """Two panels with curves; the constants are out of order and infinite."""
    study = make_study(
        name="generalised",
        panels=("1-shot learning", "5-shot learning"),
        rows=("ProtoNet", "FEAT"),
        columns=("SEEN", "harmonic mean"),
    )
    result = record(
        curve={
            "constants": ["inf", "-inf", 0.5],
            "seen": [0.0, 0.7, 0.5],
            "unseen": [0.6, 0.0, 0.3],
            "area": 0.29,
        },
        scores={"seen_among_all": {"mean": 0.47}, "unseen_among_all": {"mean": 0.31}},
    )
    return replace(study, cells=tuple(replace(cell, result=result) for cell in study.cells))
