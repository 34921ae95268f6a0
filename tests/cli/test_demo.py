"""The demo from nothing to a report, with the shipped recipes made small."""

import sys
from pathlib import Path

import pytest

from fewset.cli.demo import STAGES
from fewset.data.images import families
from fewset.experiments import train_run
from fewset.experiments.recipes import find_recipe, read_recipe
from fewset.io.paths import recorded_path
from fewset.report.loading import load_result
from fewset.report.tables import text_of
from tests.helpers.command_line import fewset, succeed

RUNS = tuple(name.replace("/", "-") for name in STAGES)
SMALL = {
    "pretrain": "[pretrain]\nepochs = 1\nvalidation_tasks = 5\nvalidation_query = 3\n",
    "train": (
        "[train]\nepochs = 1\ntasks_per_epoch = 3\ntasks_per_step = 1\nway = 3\nquery = 3\n"
        "validation_way = 3\nvalidation_query = 3\nvalidation_tasks = 5\n"
    ),
}


@pytest.fixture
def stages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The demo's own recipes, each with a few steps and tasks, on a few classes."""
    monkeypatch.setattr(families, "FAMILIES", {"train": 4, "val": 4, "test": 4})
    monkeypatch.setattr(families, "ITEMS", 14)
    files = []
    for name in STAGES:
        recipe = read_recipe(find_recipe(name))
        files.append(tmp_path / f"{recipe.name}.toml")
        evaluate = "[evaluate]\nway = 3\nquery = 3\ntasks = 37\n"
        files[-1].write_text(f'name = "{recipe.name}"\nextends = "{name}"\n{SMALL[recipe.kind]}{evaluate}')
    monkeypatch.setattr("fewset.cli.demo.STAGES", files)
    return files


def written(out: Path) -> dict[str, int]:
    """When each file of the runs was written."""
    return {str(file): file.stat().st_mtime_ns for run in RUNS for file in (out / run).rglob("*.*")}


def no_report(runs: list[Path], out: Path) -> Path:
    """In place of the report, which takes longer than all the rest."""
    assert runs == [out / run for run in RUNS[1:]]
    return out / "report.html"


def test_from_nothing_to_a_report(
    stages: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "demo"
    said = succeed("demo", "--out", out, "--device", "cpu")
    assert [line for line in said.splitlines() if line.startswith("[")] == [
        f"[{number}/{len(STAGES)}] {read_recipe(file).method}: {file}"
        for number, file in enumerate(stages, start=1)
    ]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert (out / "families.png").exists()
    assert f"report: {out / 'report.html'}" in said.replace("\n", " ")
    methods = ("ProtoNet", "ProtoNet + LayerNorm", "Item-wise network", "FEAT", "Weighing")
    for run, method in zip(RUNS[1:], methods, strict=True):
        assert f"starts from {recorded_path(out / RUNS[0])}" in (out / run / "log.txt").read_text()
        result = load_result(out / run)
        record = result.record
        assert (record.method, record.data, record.tasks, record.related) == (method, "families", 37, 5)
        for text in (said, page):
            assert method in text
            assert text_of(result.score) in text

    before = written(out)
    monkeypatch.setattr("fewset.report.page.build_report", no_report)
    succeed("demo", "--out", out)
    assert written(out) == before

    monkeypatch.setitem(sys.modules, "jinja2", None)
    said = succeed("demo", "--out", out)
    assert "ProtoNet + LayerNorm" in said
    assert "pip install 'fewset[report]'" in said


@pytest.mark.usefixtures("stages")
def test_an_interrupted_demo_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fewset.report.page.build_report", no_report)
    execute = train_run.execute

    def stopped(recipe, *words, **options):  # type: ignore[no-untyped-def]
        if recipe.name == RUNS[2]:
            raise KeyboardInterrupt
        return execute(recipe, *words, **options)

    monkeypatch.setattr(train_run, "execute", stopped)
    assert fewset("demo", "--out", tmp_path).exit_code == 130
    before = written(tmp_path)
    assert {Path(file).parent.name for file in before} >= set(RUNS[:2])
    monkeypatch.setattr(train_run, "execute", execute)
    succeed("demo", "--out", tmp_path)
    after = written(tmp_path)
    assert before.items() <= after.items()
    assert str(tmp_path / RUNS[2] / "result.json") in after


def test_the_shipped_stages_are_tasks_of_one_family() -> None:
    recipes = [read_recipe(find_recipe(name)) for name in STAGES]
    assert tuple(recipe.name for recipe in recipes) == RUNS
    assert [recipe.kind for recipe in recipes] == ["pretrain", *["train"] * (len(RUNS) - 1)]
    for recipe in recipes:
        assert recipe.data.set == "families"
        assert recipe.evaluate.tasks == 10_000
        assert recipe.evaluate.related == families.MEMBERS - 1
    assert [recipe.init for recipe in recipes] == ["", *RUNS[:1] * (len(RUNS) - 1)]
    first, *others = (recipe.train for recipe in recipes[1:])
    assert first is not None
    assert (first.related, first.nearest) == (1.0, families.MEMBERS - 1)
    assert all(other == first for other in others), "all methods are trained alike"
