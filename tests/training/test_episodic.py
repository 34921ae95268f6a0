from pathlib import Path

import pytest
import torch

from fewset.data.images.store import ImageSet
from fewset.experiments.execute import execute, stage_for
from fewset.experiments.weights import load
from tests.helpers.tiny_recipes import FROZEN, PARTLY, TRAIN, recipe


@pytest.mark.parametrize("table", [TRAIN, FROZEN, PARTLY])
def test_rotation_classes_are_other_classes(table: dict, runs: Path) -> None:
    losses = []
    for share in (0.0, 1.0):
        stage = stage_for(recipe(table, rotation_classes=share), runs)
        stage.module.eval()
        losses.append(stage.step(0).loss.item())
    assert losses[0] != losses[1]


def test_frozen_batchnorm_keeps_its_statistics(runs: Path) -> None:
    def statistics(run: Path) -> list[torch.Tensor]:
        return [value for name, value in load(run).state_dict().items() if "running_" in name]

    start = statistics(runs / "pre")
    execute(recipe(TRAIN, epochs=1, freeze_batchnorm=True), "train", runs / "frozen")
    execute(recipe(TRAIN, epochs=1), "train", runs / "free")
    assert all(torch.equal(a, b) for a, b in zip(start, statistics(runs / "frozen"), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(start, statistics(runs / "free"), strict=True))


def test_training_in_one_domain_uses_only_its_items(runs: Path, tiny_set: ImageSet) -> None:
    table = {**TRAIN, "data": {"set": "tiny", "domain": "odd"}}
    result = execute(recipe(table, epochs=1, query=2), "train", runs / "odd")
    assert result["domain"] == "odd"
    odd = tiny_set.select("test", "odd")
    assert (odd.rows % 2 == 1).all()
