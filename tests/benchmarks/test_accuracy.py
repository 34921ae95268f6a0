"""Every method on one set of embeddings: what is measured, how it goes on, and what the tables say."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import Result
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.accuracy import measurement
from benchmarks.accuracy.embeddings import Embeddings
from benchmarks.accuracy.measurement import measure_methods
from benchmarks.accuracy.record import read_per_task, read_record_of
from benchmarks.accuracy.rows import MethodRow, method_rows
from benchmarks.accuracy.tables import methods_tables, render_methods
from fewset.cli.models import list_methods
from fewset.core.errors import UserError
from fewset.data.features.table import FeatureTable
from fewset.evaluation.scoring import evaluate
from fewset.models.adapters.identity import Identity
from fewset.models.heads import HEADS
from fewset.models.heads.bd_cspn import BdCspnHead
from fewset.models.model import FewShotModel
from fewset.report.tables import plain_text
from fewset.tasks.scores import Score, compare
from fewset.tasks.spec import TaskSpec
from tests.helpers.embedded import Nothing
from tests.helpers.features import DIM, make_table

ROOT = Path(__file__).parents[2]
KEPT = sorted(path.parent for path in (ROOT / "results/paper/methods").glob("*/methods.json"))
CPU = torch.device("cpu")
FEAT = {"adapter": "attention", "adapter_options": {"zero_start": True}, "temperature": 0.1}
ROWS = [
    MethodRow("ProtoNet"),
    MethodRow("FEAT", **FEAT),
    MethodRow("BD-CSPN", "bd_cspn", choose={"transform": ("none", "cl2n"), "scale": (5.0, 10.0)}),
    MethodRow("FEAT + PT-MAP", **FEAT, then="pt_map"),
    MethodRow("TPN", "tpn"),
]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FeatureTable:
    monkeypatch.setenv("FEWSET_HOME", str(tmp_path / "home"))
    short = replace(measurement.TRAINING, way=5, epochs=1, tasks_per_epoch=4, validation_tasks=5)
    monkeypatch.setattr(measurement, "TRAINING", short)
    monkeypatch.setattr(measurement, "CHOOSING_TASKS", 20)
    flags = np.repeat([False, True], [8, 12])
    setups = np.array([1, 2] * 4 + [1] * 6 + [2] * 6)
    return make_table("clusters", seen=8, unseen=12, rows=20 * 30, flags=flags, setups=setups)


def measured(table: FeatureTable, out: Path, rows: list[MethodRow] = ROWS, tasks: int = 30) -> list[str]:
    said: list[str] = []
    measure_methods(rows, Embeddings.open(table.name, CPU), out, tasks, said.append)
    return said


def test_every_head_on_embeddings_is_a_row_and_has_a_model() -> None:
    rows = method_rows()
    assert len({row.name for row in rows}) == len(rows)
    assert {row.head for row in rows} | {row.then for row in rows} >= {
        name for part, name, about in list_methods() if part == "model.head" and about.takes == "embeddings"
    }
    for row in rows:
        for chosen in row.choices():
            config = row.model(8, 2.0, chosen)
            assert config.head in HEADS
            HEADS[config.head](8, **config.head_options)


def test_numbers_are_those_of_evaluate_and_pair_with_feat(table: FeatureTable, tmp_path: Path) -> None:
    said = measured(table, tmp_path / "out")
    record, values = read_record_of(tmp_path / "out"), read_per_task(tmp_path / "out")
    assert [line.partition("] ")[2] for line in said] == list(values)
    numbers = {(number.row, number.shot): number for number in record.numbers}
    assert len(numbers) == 2 * len(ROWS)
    features, labels = Embeddings.open(table.name, CPU).unseen("test")
    assert set(labels) == set(range(14, 20))
    number = numbers["BD-CSPN", 5]
    head = BdCspnHead(DIM, scale=number.chosen["scale"])
    if number.chosen["transform"] == "cl2n":
        mean = table.read(table.rows(np.arange(8), "train")).mean(axis=0)
        features = torch.nn.functional.normalize(features - mean, dim=-1)
    model = FewShotModel(Nothing(), Identity(DIM), head, "post")
    model.backbone.dim = DIM
    expected = evaluate(model, features, labels, TaskSpec(5, 5, 15, 30, 0))
    np.testing.assert_allclose(values["BD-CSPN, 5-shot"], expected.per_task, atol=1.01 / 75)
    inductive, transductive = map(plain_text, methods_tables(tmp_path / "out"))
    assert "ProtoNet" in inductive
    assert "BD-CSPN" in transductive
    assert "BD-CSPN" not in inductive
    assert {number.row for number in record.numbers if number.set_adds} == {"FEAT", "FEAT + PT-MAP"}
    assert "the set adds" in inductive
    difference = compare(Score.of(values["TPN, 1-shot"]), Score.of(values["FEAT, 1-shot"]))
    assert str(difference).split()[0] in transductive


def test_only_what_changed_is_measured_again(table: FeatureTable, tmp_path: Path) -> None:
    out = tmp_path / "out"
    measured(table, out, ROWS[:2])
    first = read_record_of(out)
    trained = sorted((out / "trained").iterdir())
    assert measured(table, out, ROWS[:2]) == []
    assert read_record_of(out).numbers == first.numbers
    changed = [replace(ROWS[0], head_options={"similarity": "cosine"}), *ROWS[1:2], ROWS[3]]
    said = measured(table, out, changed)
    made = [line.partition("] ")[2].partition(",")[0] for line in said]
    assert made == ["ProtoNet"] * 2 + ["FEAT + PT-MAP"] * 2
    assert sorted((out / "trained").iterdir()) == trained  # FEAT is trained once, whatever follows it
    assert read_record_of(out).numbers[2:4] == first.numbers[2:4]
    assert len(measured(table, out, changed, tasks=31)) == 6


def test_the_command_measures_and_draws(
    table: FeatureTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.accuracy.rows.method_rows", lambda _: ROWS[:2])
    words = ["accuracy", table.name, "--out", str(tmp_path / "out"), "--pages", str(tmp_path / "pages")]

    def run(*more: str) -> Result:
        return CliRunner().invoke(app, [*words, *more])

    assert "Inductive" in run("--tasks", "20", "--times").output
    page = tmp_path / "pages" / table.name / "methods.md"
    assert "| FEAT |" in page.read_text()
    assert "seconds" in page.read_text()
    page.unlink()
    run("--draw")
    assert page.exists()
    (tmp_path / "out" / table.name / "methods.json").write_text(json.dumps({"format": 9}))
    assert isinstance(run("--draw").exception, UserError)


@pytest.mark.parametrize("kept", KEPT, ids=lambda path: path.name)
def test_the_kept_tables_are_what_the_records_give(kept: Path, tmp_path: Path) -> None:
    drawn = shutil.copytree(kept, tmp_path / "drawn", ignore=shutil.ignore_patterns("trained"))
    for path in render_methods(drawn, tmp_path / "pages"):
        place = ROOT / "docs" / "paper" / "methods" / kept.name if path.suffix == ".md" else kept
        assert path.read_text(encoding="utf-8") == (place / path.name).read_text(encoding="utf-8")
    assert f"(paper/methods/{kept.name}/methods.md)" in (ROOT / "docs" / "paper.md").read_text("utf-8")
