"""Each benchmark runs from its command line; the kept pages are what the kept records give."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.classifier.measurement import read_measurement
from benchmarks.classifier.page import measured_page
from benchmarks.performance import performance_page
from fewset.models.heads import HEADS
from tests.helpers.embedded_sets import write_many_classes

ROOT = Path(__file__).parents[2]
DOCS, RESULTS = ROOT / "docs", ROOT / "results"
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
"""


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def tiny(tmp_path: Path) -> list[object]:
    (tmp_path / "plugin.py").write_text(PLUGIN)
    return ["--encoder", "tiny", "--plugin", tmp_path / "plugin.py", "--tasks", 3, "--seed", 7]


def test_classifier(tmp_path: Path, tiny: list[object]) -> None:
    write_many_classes(tmp_path / "photos", 11, 7)
    plan, page = tmp_path / "plan.toml", tmp_path / "page.md"
    plan.write_text(PLAN)
    run("classifier", plan, "--data", tmp_path, "--page", page, *tiny)
    measured = read_measurement(tmp_path / "many.json")
    assert (measured.seed, measured.encoder, measured.cells[0].tasks) == (7, "tiny", 3)
    assert page.read_text(encoding="utf-8") == measured_page(plan)


def test_background(tmp_path: Path, tiny: list[object]) -> None:
    write_many_classes(tmp_path / "photos" / "train", 20, 11)
    write_many_classes(tmp_path / "photos" / "test", 7, 8)
    out = run("background", "folder", tmp_path / "photos", "-o", tmp_path / "gain.json", *tiny)
    assert "5-way 1-shot" in out
    assert (tmp_path / "gain.json").exists()


def test_methods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = {"sides": [], "ratios": [], "facts": [], "part": "methods"}
    record["options"] = {"heads": list(HEADS), "tasks": 3, "way": 5, "shot": 1, "dim": 7}
    given: dict[str, object] = {}
    monkeypatch.setattr("benchmarks.methods.measure_methods", lambda _, **own: given.update(own) or record)
    run("methods", "--dim", 7, "--head", "ridge", "--out", tmp_path / "methods.json")
    assert (given["dim"], given["heads"]) == (7, ("ridge",))
    assert (tmp_path / "methods.json").exists()


def test_performance(tmp_path: Path) -> None:
    run("performance", RESULTS / "performance", "--page", tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == (DOCS / "performance.md").read_text(
        encoding="utf-8"
    )


def test_the_kept_pages_are_what_the_records_give() -> None:
    assert (DOCS / "classifier.md").read_text(encoding="utf-8") == measured_page(
        RESULTS / "classifier" / "plan.toml"
    )
    assert (DOCS / "performance.md").read_text(encoding="utf-8") == performance_page(RESULTS / "performance")
