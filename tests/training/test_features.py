from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fewset.data.features.table import FeatureTable, open_features, table_path, write_features
from fewset.evaluation.class_means import class_means, fit_centre
from fewset.experiments.run_directory import RunDirectory
from fewset.models.adapters.attention import Attention
from fewset.models.adapters.identity import Identity
from fewset.models.backbones.conv4 import Conv4
from fewset.models.backbones.features import FeatureInput
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.model import FewShotModel
from fewset.runtime.errors import UserError
from fewset.tasks.sampling import sample_tasks
from fewset.tasks.spec import TaskSpec
from fewset.training import loop
from fewset.training.episodic import TrainConfig
from fewset.training.features import FeatureTraining
from fewset.training.loop import fit
from fewset.training.optimiser import OptimiserConfig

SEEN, UNSEEN, DIM, ROWS = 11, 7, 5, 397


def make_table(name: str = "table", setups: np.ndarray | None = None, seed: int = 0) -> FeatureTable:
    """Classes are clusters, far from the origin; the seen classes are not the first ones."""
    generator = np.random.default_rng(seed)
    classes = SEEN + UNSEEN
    labels = generator.permutation(np.arange(ROWS) % classes)
    centres = generator.normal(size=(classes, DIM)) + 3
    write_features(
        table_path(name),
        [(centres[labels] + generator.normal(size=(ROWS, DIM))).astype(np.float32)],
        dim=DIM,
        labels=labels,
        roles=(generator.random(ROWS) < 0.3).astype(int),
        class_names=[f"class {number}" for number in range(classes)],
        unseen=np.arange(classes) % 5 < 2 if setups is None else np.arange(classes) >= SEEN,
        setups=np.zeros(classes, dtype=int) if setups is None else setups,
        source="made by a test",
        command="none",
    )
    return open_features(name)


@pytest.fixture
def table() -> FeatureTable:
    return make_table()


def make_model(adapter: nn.Module | None = None, transform: str = "none") -> FewShotModel:
    return FewShotModel(
        FeatureInput(DIM, transform), adapter or Identity(DIM), PrototypeHead(DIM, temperature=3.0)
    )


def attention() -> Attention:
    torch.manual_seed(0)
    return Attention(DIM)


def transformed(features: np.ndarray, transform: str, mean: np.ndarray) -> np.ndarray:
    if transform == "cl2n":
        features = features - mean
    return features if transform == "none" else features / np.linalg.norm(features, axis=-1, keepdims=True)


def seen_mean(table: FeatureTable) -> np.ndarray:
    rows = [row for row in range(ROWS) if not table.unseen[table.labels[row]] and table.roles[row] == 0]
    mean: np.ndarray = table.read(np.arange(ROWS)).astype(np.float64)[rows].mean(axis=0)
    return mean


@pytest.mark.parametrize("transform", ["none", "l2n", "cl2n"])
def test_class_means_are_the_means_of_the_training_rows(table: FeatureTable, transform: str) -> None:
    model = make_model(transform=transform)
    fit_centre(model, table)
    features = transformed(table.read(np.arange(ROWS)).astype(np.float64), transform, seen_mean(table))
    classes = np.array([13, 2, 7])
    expected = [features[(table.labels == number) & (table.roles == 0)].mean(axis=0) for number in classes]
    np.testing.assert_allclose(class_means(model, table, classes), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("transform", ["none", "cl2n"])
@pytest.mark.parametrize("chunk", [1, 7, 83, 1000])
def test_class_means_do_not_depend_on_the_chunk(table: FeatureTable, transform: str, chunk: int) -> None:
    model = make_model(transform=transform)
    fit_centre(model, table)
    classes = table.classes("seen")
    assert torch.equal(class_means(model, table, classes, chunk), class_means(model, table, classes))


def test_a_class_without_training_rows_is_named(table: FeatureTable) -> None:
    table.roles[table.labels == 4] = 1
    with pytest.raises(UserError, match=r"class 'class 4' of 'table' has no training rows"):
        class_means(make_model(), table, np.array([2, 4]))


def test_the_centre_is_part_of_the_weights(table: FeatureTable) -> None:
    model, other = make_model(transform="cl2n"), make_model(transform="cl2n")
    with pytest.raises(UserError, match="call fit_centre"):
        class_means(model, table, table.classes("seen"))
    fit_centre(model, table)
    np.testing.assert_allclose(model.backbone.centre, seen_mean(table), rtol=1e-6)  # type: ignore[arg-type]
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.backbone.centre, model.backbone.centre)  # type: ignore[arg-type]
    assert not make_model(transform="l2n").state_dict()


def test_models_that_do_not_fit_are_refused(table: FeatureTable) -> None:
    images = FewShotModel(Conv4(dim=DIM), Identity(DIM), PrototypeHead(DIM))
    with pytest.raises(UserError, match="this model embeds images"):
        class_means(images, table, table.classes("seen"))
    wide = FewShotModel(FeatureInput(DIM + 1), Identity(DIM + 1), PrototypeHead(DIM + 1))
    with pytest.raises(UserError, match="features of 6 numbers, but 'table' has 5"):
        fit_centre(wide, table)
    with pytest.raises(UserError, match="Did you mean 'l2n'"):
        FeatureInput(DIM, "l2")


# Training

CONFIG = TrainConfig(
    way=3, shot=2, query=3, epochs=3, tasks_per_epoch=7, tasks_per_step=1, balance=0.5,
    contrastive_temperature=2.0, validation_tasks=23, validation_way=3, validation_query=3,
)  # fmt: skip


def test_validation_classes_are_not_trained_on(table: FeatureTable) -> None:
    stage = FeatureTraining(make_model(attention()), table, CONFIG, seed=0)
    trained = set(table.labels[stage.rows].tolist())
    assert len(stage.validated) == 3
    assert not trained & set(stage.validated.tolist())
    assert trained | set(stage.validated.tolist()) == set(table.classes("seen").tolist())
    assert (table.roles[stage.rows] == 0).all()


def test_validation_takes_the_validation_setup_where_there_is_one() -> None:
    setups = np.repeat([1, 2, 1, 2], [5, 6, 4, 3])
    table = make_table(setups=setups)
    stage = FeatureTraining(make_model(attention()), table, CONFIG, seed=0)
    assert stage.validated.tolist() == [11, 12, 13, 14]
    assert set(table.labels[stage.rows].tolist()) == set(range(SEEN))


@pytest.mark.parametrize("transform", ["none", "cl2n"])
def test_a_step_is_the_loss_of_its_task(table: FeatureTable, transform: str) -> None:
    """Without an adapter all is simple enough for a loop: task loss and half the contrastive term."""
    model = make_model(transform=transform)
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
        **{**vars(CONFIG), "epochs": 3, "tasks_per_epoch": 40, "optimiser": OptimiserConfig(lr=1e-3)}
    )
    run = RunDirectory(tmp_path / "run")
    run.begin("recipe", resume=False, force=False)
    stage = FeatureTraining(make_model(Attention(DIM, dropout=0.0)), table, config, seed=0)
    with torch.no_grad():
        before = np.mean([stage.step(number).loss.item() for number in range(1000, 1030)])
    fit(stage, run)
    with torch.no_grad():
        after = np.mean([stage.step(number).loss.item() for number in range(1000, 1030)])
    assert after < 0.9 * before
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 3


def test_a_stopped_run_ends_with_the_same_weights(
    table: FeatureTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)  # a checkpoint after each step

    def stage() -> FeatureTraining:
        return FeatureTraining(make_model(attention(), "cl2n"), table, CONFIG, seed=0)

    def begin(name: str) -> RunDirectory:
        run = RunDirectory(tmp_path / name)
        run.begin("recipe", resume=True, force=False)
        return run

    whole = stage()
    fit(whole, begin("whole"))
    for stop in (4, 7, 12):
        stopped = stage()
        step = stopped.step

        def killed(number: int, stop: int = stop, step=step) -> loop.Step:  # type: ignore[no-untyped-def]
            if number == stop:
                raise KeyboardInterrupt
            result: loop.Step = step(number)
            return result

        stopped.step = killed  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            fit(stopped, begin("stopped"))
    resumed = stage()
    fit(resumed, begin("stopped"))
    for name, value in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], value), name
    assert not torch.equal(whole.model.adapter.layers[0].norm.bias, torch.zeros(DIM))  # type: ignore[index, union-attr]


def test_a_model_without_an_adapter_is_only_scored(table: FeatureTable, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nothing to train .*train.epochs = 0"):
        FeatureTraining(make_model(), table, CONFIG, seed=0)
    run = RunDirectory(tmp_path / "run")
    run.begin("recipe", resume=False, force=False)
    stage = FeatureTraining(
        make_model(transform="cl2n"), table, TrainConfig(**{**vars(CONFIG), "epochs": 0}), 0
    )
    fit(stage, run)
    assert stage.model.backbone.centre.isfinite().all()  # type: ignore[union-attr, operator]
    assert stage.validate().per_task.shape == (23,)


def test_what_features_do_not_have_is_refused(table: FeatureTable) -> None:
    for change in ({"augment": ("flip",)}, {"init": "pre"}, {"precision": "bfloat16"}):
        with pytest.raises(UserError, match=r"leave out train\.augment"):
            FeatureTraining(make_model(attention()), table, TrainConfig(**{**vars(CONFIG), **change}), 0)
