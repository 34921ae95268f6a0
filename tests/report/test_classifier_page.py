"""The page of `fewset measure`."""

import re
from pathlib import Path

import pytest

from fewset.classify.measure.measurement import (
    Cell,
    Figure,
    Measurement,
    TrustCell,
    read_measurement,
    read_plan,
    write_measurement,
)
from fewset.core.errors import UserError
from fewset.report.classifier_page import measured_page, write_measured_page
from tests.helpers.command_line import fail, succeed
from tests.helpers.measured import write_many_classes

DOCS = Path(__file__).parents[2] / "docs"
PLUGIN = """
import fewset
from tests.helpers.photos import TinyEncoder

fewset.register_encoder("tiny")(lambda device: TinyEncoder())
"""
PLAN = """
notes = ["A note on all."]

[[sets]]
name = "many"
title = "Many *classes*"
kind = "folder"
source = "photos"
notes = ["A note on one."]
[sets.bars]
"5-way 1-shot" = 61.5
"5-way 5-shot" = 80
calibration_error = 2
auroc = 90
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
        command="fewset measure",
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
    page = measured_page(plan, plan.parent)
    for line in (
        "- A note on all.",
        "## Many \\*classes\\*",
        "| logistic | 61.12 ± 0.20 | 79.60 ± 0.20 |",
        "| ridge (default) | 62.34 ± 0.30 | 79.00 ± 0.30 |",
        "| logistic | -1.22 ± 0.10 | – |",
        "| ridge (default) | – | -0.60 ± 0.10 |",
        "Tasks, and queries a class: 10,000 of 15 at 5-way 1-shot, 10,000 of 15 at 5-way 5-shot.",
        "A note on one.",
        "| Many \\*classes\\* | 5-way 1-shot | at least 61.5 | 62.34 | yes |",
        "| Many \\*classes\\* | 5-way 5-shot | at least 80 | 79.00 | no |",
        "| Many \\*classes\\* | expected calibration error | at most 2 | 1.23 | yes |",
        "| Many \\*classes\\* | AUROC of “none of these” | at least 90 | 90.00 | yes |",
        "| expected calibration error | 1.23 |",
        "| Many \\*classes\\* | abababababab | tiny (d1d1d1d1d1d1) | 5 | c0c0c0c0c0 | 2 | fewset measure |",
    ):
        assert f"\n{line}\n" in page
    assert "(ridge) is -0.30 points ahead" in page
    assert "At worst it is -0.60 (Many *classes*, 5-way 5-shot); it is more than 0.3 behind in 1." in page


def test_words_and_bars_are_those_of_the_plan(plan: Path) -> None:
    write_measurement(measurement(plan), plan.parent / "many.json")
    plan.write_text(PLAN.replace("61.5", "63").replace("A note on one.", "Another note."))
    page = measured_page(plan, plan.parent)
    assert "| 5-way 1-shot | at least 63 | 62.34 | no |" in page
    assert "Another note." in page
    plan.write_text(PLAN.replace('"photos"', '"others"'))
    with pytest.raises(UserError, match=r"was measured on .*'photos'.*the plan has .*'others'"):
        measured_page(plan, plan.parent)


def test_the_page_has_the_whole_name_of_its_folder(plan: Path) -> None:
    write_measurement(measurement(plan), plan.parent / "many.json")
    folder = plan.parent.rename(plan.parent.with_name("v1.0"))
    assert write_measured_page(folder / plan.name, folder).name == "v1.0.md"
    with pytest.raises(UserError, match="has no name and nothing beside it"):
        write_measured_page(folder / plan.name, Path("/"))


def test_a_bar_for_nothing_is_refused(plan: Path) -> None:
    write_measurement(measurement(plan), plan.parent / "many.json")
    plan.write_text(PLAN.replace("5-way 1-shot", "7-way 1-shot"))
    with pytest.raises(UserError, match="a bar for '7-way 1-shot'"):
        measured_page(plan, plan.parent)


def test_measured_from_the_command_line(plan: Path, tmp_path: Path) -> None:
    write_many_classes(tmp_path / "photos", 11, 7)
    (tmp_path / "plugin.py").write_text(PLUGIN)
    words = ["measure", plan, "--data", tmp_path]
    assert "nothing of" in fail(*words, "--draw")
    assert "'few'" in fail(*words, "--only", "few")
    succeed(*words, "--encoder", "tiny", "--plugin", tmp_path / "plugin.py", "--tasks", 3, "--seed", 7)
    measured = read_measurement(plan.parent / "many.json")
    assert (measured.seed, measured.encoder, measured.cells[0].tasks) == (7, "tiny", 3)
    page = (tmp_path / "out.md").read_text(encoding="utf-8")
    assert page == measured_page(plan, plan.parent)
    (tmp_path / "out.md").unlink()
    assert str(write_measured_page(plan, plan.parent)) in succeed(*words, "--draw").replace("\n", "")
    assert (tmp_path / "out.md").read_text(encoding="utf-8") == page


# What is kept in docs/


def kept() -> list[Measurement]:
    plan = read_plan(DOCS / "classifier" / "plan.toml")
    return [read_measurement(DOCS / "classifier" / f"{each.name}.json") for each in plan.sets]


def test_the_kept_page_is_what_the_files_give() -> None:
    page = (DOCS / "classifier.md").read_text(encoding="utf-8")
    assert page == measured_page(DOCS / "classifier" / "plan.toml", DOCS / "classifier")


def test_every_kept_number_says_how_it_was_made() -> None:
    for measured in kept():
        assert re.fullmatch(r"[0-9a-f]{40}", measured.commit)
        assert re.fullmatch(r"[0-9a-f]{64}", measured.images_digest)
        assert measured.encoder_digest == kept()[0].encoder_digest
        assert measured.command.startswith("fewset measure docs/classifier/plan.toml --data ")
        assert measured.trust.tasks == 1_000
        for cell in measured.cells:
            assert cell.tasks >= {5: 2_000, 20: 1_000}.get(cell.way, 100)
            assert {"centroid", "ridge", "logistic", measured.default} <= set(cell.accuracy)


def test_kept_sketches_of_one_photo_are_apart() -> None:
    """3 photos a class at least: at 1 shot two are left for queries."""
    sketches = next(each for each in kept() if each.planned.name == "sketchy-sketches")
    assert [cell.query for cell in sketches.cells if cell.shot == 1] == [2, 2, 2]


@pytest.mark.parametrize(
    ("old", "new"),
    [('"logistic": {', '"odd": {'), ('"auroc": {', '"odd": {'), ('"default": "ridge"', '"default": "odd"')],
)
def test_a_measurement_that_lacks_figures_is_refused(old: str, new: str, plan: Path) -> None:
    file = plan.parent / "many.json"
    write_measurement(measurement(plan), file)
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(UserError, match=r"many\.json lacks some of the figures"):
        measured_page(plan, plan.parent)
