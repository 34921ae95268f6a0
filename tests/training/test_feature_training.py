from pathlib import Path

import numpy as np
import pytest
import torch

from fewset.core.errors import UserError
from fewset.data.features.table import FeatureTable
from fewset.experiments.run_directory import RunDirectory
from fewset.models.adapters.attention import Attention
from fewset.tasks.sampling import sample_tasks
from fewset.tasks.spec import TaskSpec
from fewset.training.episodic import TrainConfig
from fewset.training.feature_training import FeatureTraining
from fewset.training.loop import fit
from fewset.training.optimiser import OptimiserConfig
from tests.helpers.features import DIM, SEEN, UNSEEN, feature_model, make_table, seen_mean, transformed


@pytest.fixture
def table() -> FeatureTable:
    return make_table(setups=np.zeros(SEEN + UNSEEN, dtype=int))


def attention(**options: float) -> Attention:
    torch.manual_seed(0)
    return Attention(DIM, **options)


CONFIG = TrainConfig(
    way=3, shot=2, query=3, epochs=3, tasks_per_epoch=7, tasks_per_step=1, balance=0.5,
    contrastive_temperature=2.0, validation_tasks=23, validation_way=3, validation_query=3,
)  # fmt: skip


def test_validation_classes_are_not_trained_on(table: FeatureTable) -> None:
    stage = FeatureTraining(feature_model(attention()), table, CONFIG, seed=0)
    trained = set(table.labels[stage.rows].tolist())
    assert len(stage.validated) == 3
    assert not trained & set(stage.validated.tolist())
    assert trained | set(stage.validated.tolist()) == set(table.classes("seen").tolist())
    assert (table.roles[stage.rows] == 0).all()


def test_validation_takes_the_validation_setup_where_there_is_one() -> None:
    setups = np.repeat([1, 2, 1, 2], [5, 6, 4, 3])
    table = make_table(flags=np.arange(SEEN + UNSEEN) >= SEEN, setups=setups)
    stage = FeatureTraining(feature_model(attention()), table, CONFIG, seed=0)
    assert stage.validated.tolist() == [11, 12, 13, 14]
    assert set(table.labels[stage.rows].tolist()) == set(range(SEEN))


@pytest.mark.parametrize("transform", ["none", "cl2n"])
def test_a_step_is_the_loss_of_its_task(table: FeatureTable, transform: str) -> None:
    """Without an adapter all is simple enough for a loop: task loss and half the contrastive term."""
    model = feature_model(transform=transform)
    stage = FeatureTraining(model, table, TrainConfig(**{**vars(CONFIG), "epochs": 0}), seed=3)
    rows = stage.rows[sample_tasks(stage.index, TaskSpec(3, 2, 3, 1, 3), 5, 6)[0]]
    assert not set(table.labels[rows].reshape(-1)) & set(stage.validated)
    items = transformed(
        table.read(rows.reshape(-1)).astype(np.float64).reshape(3, 5, DIM), transform, seen_mean(table)
    )

    def cross_entropy(query: np.ndarray, label: int, centres: np.ndarray, temperature: float) -> float:
        scores = -((query - centres) ** 2).sum(axis=1) / temperature
        return float(np.log(np.exp(scores - scores[label]).sum()))

    shots, centres = items[:, :2].mean(axis=1), items.mean(axis=1)
    task = np.mean([cross_entropy(items[n, q], n, shots, 3.0) for n in range(3) for q in range(2, 5)])
    contrast = np.mean([cross_entropy(items[n, q], n, centres, 2.0) for n in range(3) for q in range(5)])
    hits = [np.argmin(((items[n, q] - shots) ** 2).sum(axis=1)) == n for n in range(3) for q in range(2, 5)]
    loss, accuracy = stage.step(5)
    np.testing.assert_allclose(loss, task + 0.5 * contrast, rtol=1e-4)
    assert accuracy.item() == pytest.approx(np.mean(hits))


def test_an_adapter_learns(table: FeatureTable, tmp_path: Path) -> None:
    config = TrainConfig(
        **{**vars(CONFIG), "epochs": 3, "tasks_per_epoch": 40, "optimiser": OptimiserConfig(lr=3e-3)}
    )
    run = RunDirectory(tmp_path / "run")
    run.begin("recipe", resume=False, force=False)
    stage = FeatureTraining(feature_model(attention(dropout=0.0)), table, config, seed=0)
    with torch.no_grad():
        before = np.mean([stage.step(number).loss.item() for number in range(1000, 1030)])
    fit(stage, run.files)
    with torch.no_grad():
        after = np.mean([stage.step(number).loss.item() for number in range(1000, 1030)])
    assert after < 0.9 * before
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 3


def test_a_model_without_an_adapter_is_only_scored(table: FeatureTable, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing to train .*train.epochs = 0"):
        FeatureTraining(feature_model(), table, CONFIG, seed=0)
    run = RunDirectory(tmp_path / "run")
    run.begin("recipe", resume=False, force=False)
    stage = FeatureTraining(
        feature_model(transform="cl2n"), table, TrainConfig(**{**vars(CONFIG), "epochs": 0}), 0
    )
    fit(stage, run.files)
    assert stage.model.feature_transform.mean.isfinite().all()
    assert stage.validate().per_task.shape == (23,)
