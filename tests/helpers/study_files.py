"""Made-up studies. All their values differ, so that a test notices when two places are mixed up."""

from dataclasses import replace
from typing import Any

from fewset.experiments.result import Result, StoredScore
from fewset.paper.study import Study, StudyNumber
from tests.helpers.results import RECORD

COLUMNS = ("1-shot 5-way", "5-shot 5-way")


def record(**fields: Any) -> Result:
    """A result in a study."""
    own = {"run": "strokes-feat", "method": "FEAT", "tasks": 10_007, "seed": 3, "mean": 0.5, "ci95": 0.001}
    return Result(**{**RECORD, **own, "commit": "0123456789abcdef", **fields})


def make_study(**changes: Any) -> Study:
    """A complete study; 0.5 and a hundredth more for each place, in order."""
    study = Study(
        name="heads",
        title="Number of heads",
        data="strokes",
        backbone="conv4",
        style="table",
        corner="heads",
        columns_title="",
        panels=("",),
        rows=("1", "2", "8"),
        columns=COLUMNS,
        column_keys=COLUMNS,
        command="fewset ablate heads",
        numbers=(),
        notes=(),
    )
    columns = changes.get("columns", COLUMNS)
    study = replace(study, **{"column_keys": columns, **changes})
    places = [
        (panel, row, column) for panel in study.panels for row in study.rows for column in study.columns
    ]
    numbers = tuple(
        StudyNumber(*place, "", {}, record(mean=0.5 + number / 100, ci95=0.001 + number / 10_000))
        for number, place in enumerate(places)
    )
    return study if "numbers" in changes else replace(study, numbers=numbers)


def generalised_study() -> Study:
    """Two panels with curves; the constants are out of order and infinite."""
    study = make_study(
        name="generalised",
        panels=("1-shot learning", "5-shot learning"),
        rows=("ProtoNet", "FEAT"),
        columns=("SEEN", "harmonic mean"),
    )
    curve = {"constants": ["inf", "-inf", 0.5], "seen": [0.0, 0.7, 0.5], "unseen": [0.6, 0.0, 0.3]}
    scores = {
        "seen_among_all": StoredScore(0.47, 0.01, "seen.npy"),
        "unseen_among_all": StoredScore(0.31, 0.01, "unseen.npy"),
    }
    changes: dict[str, Any] = {"fields": {"curve": {**curve, "area": 0.29}}, "scores": scores}
    numbers = (replace(number, result=replace(number.result, **changes)) for number in study.numbers)
    return replace(study, numbers=tuple(numbers))
