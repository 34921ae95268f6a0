"""Each benchmark runs from its command line; the kept pages are what the kept records give."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.classifier.measurement import read_measurement
from benchmarks.classifier.page import measured_page
from benchmarks.performance import performance_page
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


@pytest.mark.slow  # trains FEAT twice
def test_background(tmp_path: Path, tiny: list[object]) -> None:
    write_many_classes(tmp_path / "photos" / "train", 20, 11)
    write_many_classes(tmp_path / "photos" / "test", 7, 8)
    out = run("background", "folder", tmp_path / "photos", "-o", tmp_path / "gain.json", *tiny)
    assert "5-way 1-shot" in out
    record = json.loads((tmp_path / "gain.json").read_text())
    cells = [(cell["way"], cell["shot"], cell["tasks"]) for cell in record["cells"]]
    assert cells == [(5, 1, 3), (5, 5, 3), (7, 1, 3), (7, 5, 3)]
    assert (record["background"]["classes"], record["tested"]["split"]) == (20, "test")


def test_the_kept_pages_are_what_the_records_give() -> None:
    assert (DOCS / "classifier.md").read_text(encoding="utf-8") == measured_page(
        RESULTS / "classifier" / "plan.toml"
    )
    assert (DOCS / "performance.md").read_text(encoding="utf-8") == performance_page(RESULTS / "performance")


@pytest.mark.slow
def test_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("benchmarks.scale.NAMES", 40)
    run("scale", "--photos", 4, "--beside", "a test", "-o", tmp_path / "scale.json")
    record = json.loads((tmp_path / "scale.json").read_text())
    assert set(record["photos_per_second"]) == {"1 worker", "2 workers"}
    assert all(size > 10**7 for size in record["peak_memory"].values())
    page = performance_page(tmp_path)
    assert "photos of a list of 40 names" in page
    assert "beside it ran: a test" in page
