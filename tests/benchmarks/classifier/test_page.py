"""The page on the accuracy of the classifier."""

from pathlib import Path

import pytest

from benchmarks.classifier.measurement import (
    Cell,
    Figure,
    Measurement,
    TrustCell,
    read_plan,
    write_measurement,
)
from benchmarks.classifier.page import measured_page

PLAN = """
notes = ["A note on all."]

[[sets]]
name = "many"
title = "Many *classes*"
kind = "folder"
source = "photos"
notes = ["A note on one."]
"""


def measurement(plan: Path) -> Measurement:
    def cell(shot: int, ridge: float, logistic: float, reference: str) -> Cell:
        best = max(ridge, logistic)
        accuracy = {"logistic": Figure(logistic, 0.002), "ridge": Figure(ridge, 0.003)}
        ahead = {"logistic": Figure(logistic - best, 0.001), "ridge": Figure(ridge - best, 0.001)}
        return Cell(5, shot, 15, 10_000, reference, accuracy, ahead)

    names = ("calibration_error", "overconfidence", "covered", "left_out_bias", "left_out_error", "auroc")
    figures = {name: Figure(0.9) for name in (*names, "turned_away", "strangers_found")}
    figures["calibration_error"] = Figure(0.0123)
    return Measurement(
        planned=read_plan(plan).sets[0],
        images=77,
        classes=11,
        images_digest="ab" * 32,
        encoder="tiny",
        encoder_digest="d1" * 32,
        default="ridge",
        seed=5,
        cells=(cell(1, 0.6234, 0.6112, "ridge"), cell(5, 0.79, 0.796, "logistic")),
        trust=TrustCell("ridge", 5, 5, 20, 1000, figures),
        command="measure",
        commit="c0" * 20,
        versions={},
        seconds=120.0,
    )


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "plan.toml").write_text(PLAN)
    return tmp_path / "out" / "plan.toml"


def test_the_page_says_what_the_files_have(plan: Path) -> None:
    write_measurement(measurement(plan), plan.parent / "many.json")
    page = measured_page(plan)
    for line in (
        "- A note on all.",
        "## Many \\*classes\\*",
        "| logistic | 61.12 ± 0.20 | 79.60 ± 0.20 |",
        "| ridge (default) | 62.34 ± 0.30 | 79.00 ± 0.30 |",
        "| logistic | -1.22 ± 0.10 | – |",
        "| ridge (default) | – | -0.60 ± 0.10 |",
        "Tasks, and queries a class: 10,000 of 15 at 5-way 1-shot, 10,000 of 15 at 5-way 5-shot.",
        "A note on one.",
        "| expected calibration error | 1.23 |",
        "| Many \\*classes\\* | abababababab | tiny (d1d1d1d1d1d1) | 5 | c0c0c0c0c0 | 2 | measure |",
    ):
        assert f"\n{line}\n" in page
    assert "(ridge) is -0.30 points ahead" in page
    assert "At worst it is -0.60 (Many *classes*, 5-way 5-shot); it is more than 0.3 behind in 1." in page
