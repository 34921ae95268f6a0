from pathlib import Path

import numpy as np
import pytest
import torch

from fewset.data.images.store import ImageSet
from fewset.experiments.config import Recipe
from fewset.experiments.train_run import execute, stage_for
from fewset.experiments.weights import load
from fewset.tasks.sampling import sample_tasks
from fewset.training import episodic
from fewset.training.episodic import TrainConfig, task_step
from fewset.training.loop import Stage, Step
from tests.helpers.tiny_recipes import FROZEN, MODEL, PARTLY, PRETRAIN, TRAIN, recipe
from tests.helpers.tiny_set import spoiled_copy

every_training = pytest.mark.parametrize(
    "table", [TRAIN, FROZEN, PARTLY], ids=["whole", "frozen", "partly frozen"]
)


@pytest.fixture
def embedded(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """The embeddings of each step's tasks, as the loss sees them."""
    kept: list[torch.Tensor] = []

    def keep(model: torch.nn.Module, items: torch.Tensor, config: TrainConfig) -> Step:
        kept.append(items.detach())
        return task_step(model, items, config)

    monkeypatch.setattr(episodic, "task_step", keep)
    return kept


def embed_rotated(stage: Stage, images: np.ndarray, quarters: int) -> np.ndarray:
    """Embeddings of images that are turned to the left so often, one after another."""
    rows = []
    for image in images:
        turned = np.rot90(image, quarters)[2:18, 2:18]  # the middle 16 of 20 pixels
        pixels = torch.from_numpy(turned.copy()).permute(2, 0, 1).float()
        with torch.no_grad():
            rows.append(stage.model.embed(stage.model.prepare(pixels[None]))[0].numpy())
    return np.array(rows)


def rotations_of(
    table: dict, share: float, runs: Path, images: ImageSet, embedded: list[torch.Tensor]
) -> list[list[int]]:
    """How often each class of seven tasks is turned: all its items alike, under a label of their own."""
    stage = stage_for(recipe(table, rotation_classes=share, augment=[], balance=0.0), runs)
    stage.module.eval()  # no dropout, and BatchNorm with its running statistics
    train, found = images.select("train").rows, []
    for number in range(7):
        loss, _ = stage.step(number)
        (items,) = embedded.pop().numpy()
        (task,) = sample_tasks(stage.index, stage.spec_of(number), number, number + 1)
        found.append([])
        for own, place in zip(items, task, strict=True):
            pictures = [embed_rotated(stage, images.images[train[place]], quarters) for quarters in range(4)]
            away = [np.abs(picture - own).max() / np.abs(own).max() for picture in pictures]
            nearest, others = sorted(range(4), key=away.__getitem__)[0], sorted(away)[1:]
            assert away[nearest] < 0.005 < 0.05 < min(others)  # half precision behind frozen blocks
            found[-1].append(nearest)
        support, query = torch.tensor(items[None, :, :2]), torch.tensor(items[None, :, 2:].reshape(1, 9, -1))
        with torch.no_grad():
            shares = stage.model(support, query)[0].softmax(-1).numpy()
        expected = np.mean([-np.log(shares[3 * way + one, way]) for way in range(3) for one in range(3)])
        assert loss.item() == pytest.approx(expected, rel=1e-4)
    return found


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_rotation_classes_are_classes_of_images_turned_alike(
    share: float, runs: Path, tiny_set: ImageSet, embedded: list[torch.Tensor]
) -> None:
    found = [rotations_of(table, share, runs, tiny_set, embedded) for table in (TRAIN, FROZEN, PARTLY)]
    assert found[0] == found[1] == found[2]
    assert {quarters for task in found[0] for quarters in task} == ({0, 1, 2, 3} if share < 1 else {1, 2, 3})
    assert any(len(set(task)) > 1 for task in found[0])


@every_training
def test_without_rotation_classes_nothing_is_turned(
    table: dict, runs: Path, tiny_set: ImageSet, embedded: list[torch.Tensor]
) -> None:
    assert rotations_of(table, 0.0, runs, tiny_set, embedded) == [[0, 0, 0]] * 7


def test_frozen_batchnorm_keeps_its_statistics(runs: Path) -> None:
    def statistics(run: Path) -> list[torch.Tensor]:
        return [value for name, value in load(run).state_dict().items() if "running_" in name]

    start = statistics(runs / "pre")
    execute(recipe(TRAIN, epochs=1, freeze_batchnorm=True), "train", runs / "frozen")
    execute(recipe(TRAIN, epochs=1), "train", runs / "free")
    assert all(torch.equal(a, b) for a, b in zip(start, statistics(runs / "frozen"), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(start, statistics(runs / "free"), strict=True))


# One domain

SIMPLESHOT = {
    **TRAIN,
    "name": "simpleshot",
    "model": {**MODEL, "feature_transform": ["centre", "l2"]},
}
every_stage = pytest.mark.parametrize(
    "table",
    [PRETRAIN, TRAIN, FROZEN, PARTLY, SIMPLESHOT],
    ids=["pretrain", "whole", "frozen", "partly frozen", "centred features"],
)
EVEN, ODD = 0, 1
FEW = {"pre": {"epochs": 1}, "feat": {"epochs": 1, "query": 2}, "simpleshot": {"epochs": 0, "query": 2}}


def in_odd_items(table: dict, name: str = "tiny", **changes: object) -> Recipe:
    return recipe({**table, "data": {"set": name, "domain": "odd"}}, validation_query=2, **changes)


@pytest.mark.parametrize("table", [PRETRAIN, TRAIN], ids=["pretrain", "train"])
def test_the_rows_of_one_domain_are_trained_on(table: dict, runs: Path, tiny_set: ImageSet) -> None:
    stage = stage_for(in_odd_items(table, **FEW[table["name"]]), runs)
    for selection, split in ((stage.train, 0), (stage.val, 1)):
        expected = [
            row
            for row in range(len(tiny_set.labels))
            if tiny_set.splits[row] == split and tiny_set.domains[row] == ODD
        ]
        assert selection.rows.tolist() == expected


@every_stage
def test_training_in_one_domain_never_sees_the_others(table: dict, runs: Path, tiny_set: ImageSet) -> None:
    """Noise in place of another domain's images changes no weight; in place of its own it changes them."""
    domains = tiny_set.domains
    assert domains is not None
    spoiled_copy(tiny_set, "other-spoiled", np.flatnonzero(domains == EVEN))
    spoiled_copy(tiny_set, "own-spoiled", np.flatnonzero(domains == ODD))
    weights, means = {}, {}
    for name in ("tiny", "other-spoiled", "own-spoiled"):
        given = in_odd_items(table, name, **FEW[table["name"]])
        result = execute(given, given.kind, runs / name)
        weights[name], means[name] = (runs / name / "model.safetensors").read_bytes(), result.mean
        assert result.domain == "odd"
    assert weights["tiny"] == weights["other-spoiled"] != weights["own-spoiled"]
    assert means["tiny"] == means["other-spoiled"]
