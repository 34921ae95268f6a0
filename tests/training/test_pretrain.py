import json
from pathlib import Path

import numpy as np
import pytest
import torch

from fewset.core.errors import UserError
from fewset.data.images.augmentation import rotate
from fewset.data.images.store import ImageSet
from fewset.experiments.train_run import execute, stage_for
from fewset.training.loop import train_step
from fewset.training.pretrain import Pretraining
from tests.helpers.tiny_recipes import PRETRAIN, recipe

pytestmark = pytest.mark.usefixtures("tiny_set")


def test_pretraining_learns(tmp_path: Path) -> None:
    optimiser = {"lr": 3e-3, "other_lr_scale": 1.0, "schedule": "constant"}
    execute(
        recipe(PRETRAIN, epochs=8, augment=[], batch=13, optimiser=optimiser), "pretrain", tmp_path / "pre"
    )
    rows = [json.loads(line) for line in (tmp_path / "pre" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["loss"] < 0.5 * rows[0]["loss"]
    assert rows[-1]["accuracy"] > 0.8


# What a step's loss is made of


Pass = tuple[torch.Tensor, np.ndarray]  # what a layer is given, and what it gives


def spied(stage: Pretraining) -> tuple[list[Pass], list[Pass]]:
    """What goes through the stage's backbone and its classifier from now on; without noise."""
    stage.module.eval()
    passes: tuple[list[Pass], list[Pass]] = [], []
    for layer, kept in zip((stage.trained.backbone, stage.classifier), passes, strict=True):
        layer.register_forward_hook(
            lambda _, given, made, kept=kept: kept.append((given[0], made.detach().double().numpy()))
        )
    return passes


def cross_entropy(logits: np.ndarray, target: int) -> float:
    return float(np.log(np.exp(logits - logits[target]).sum()))


def test_rotation_shows_every_image_again_turned(runs: Path) -> None:
    stage = stage_for(recipe(PRETRAIN, rotation=0.7, augment=[]), runs)
    backbone, classifier = spied(stage)
    head = stage.module["rotation"]
    targets, counts = [], np.zeros(4)
    for number in range(3):
        loss = stage.step(number).loss.item()
        (images, embedded), (_, logits) = backbone.pop(), classifier.pop()
        plain, turned = images[:37], images[37:]
        labels = stage.targets[stage._batch(*divmod(number, stage.steps_per_epoch))]
        turns = [
            next(q for q in range(4) if torch.equal(rotate(one[None], torch.tensor([q]))[0], other))
            for one, other in zip(plain, turned, strict=True)
        ]
        counts += np.bincount(turns, minlength=4)
        weight, bias = (value.detach().double().numpy() for value in (head.weight, head.bias))
        told = np.mean(
            [cross_entropy(weight @ e + bias, t) for e, t in zip(embedded[37:], turns, strict=True)]
        )
        named = np.mean([cross_entropy(row, label) for row, label in zip(logits, labels, strict=True)])
        assert loss == pytest.approx(named + 0.7 * told, rel=1e-4)
        targets.append(turns)
    assert counts.min() > 10
    assert targets[0] != targets[1]


def test_the_average_follows_every_step_and_is_what_is_kept(runs: Path, tiny_set: ImageSet) -> None:
    assert len(tiny_set.class_names) == 27
    stage = stage_for(recipe(PRETRAIN, average=0.8), runs)
    names = [name for name, value in stage.model.state_dict().items() if value.is_floating_point()]
    assert any("running_var" in name for name in names)
    expected: dict[str, np.ndarray] = {}
    for number in range(4):
        train_step(stage, number)
        for name in names:
            now = stage.trained.state_dict()[name].double().numpy()
            expected[name] = 0.8 * expected[name] + 0.2 * now if number else now
    for name in names:
        kept = stage.model.state_dict()[name].double().numpy()
        np.testing.assert_allclose(kept, expected[name], rtol=1e-4, atol=1e-6)
    same = (torch.equal(stage.model.state_dict()[name], stage.trained.state_dict()[name]) for name in names)
    assert not any(same)


def test_the_average_changes_nothing_in_what_is_learned(runs: Path) -> None:
    weights = []
    for average in (0.0, 0.8):
        stage = stage_for(recipe(PRETRAIN, average=average), runs)
        for number in range(3):
            train_step(stage, number)
        weights.append(stage.trained.state_dict())
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


def test_the_area_of_crops_is_an_option(runs: Path) -> None:
    """Crops of the whole image are the image itself, but for its aspect."""
    steps = {"augment": ["resized_crop"], "optimiser": {"lr": 1e-3}}
    losses = [
        stage_for(recipe(PRETRAIN, **steps, **area), runs).step(0).loss.item()
        for area in ({}, {"crop_area": [0.08, 1.0]}, {"crop_area": [0.9, 1.0]})
    ]
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"average": 1.0}, "pretrain.average from 0 to less than 1"),
        ({"rotation": -0.1}, "pretrain.rotation must be 0 or more"),
        ({"validation_tasks": 0}, "validation_tasks is 0, expected 1 or more"),
        ({"validation_query": -3}, "validation_query is -3, expected 1 or more"),
        ({"label_smoothing": 2.0}, "pretrain.label_smoothing is 2.0"),
        ({"label_smoothing": -0.1}, "pretrain.label_smoothing is -0.1"),
        ({"crop_area": [0.9, 0.5]}, "expected two shares"),
        ({"crop_area": [0.5, 1.0], "augment": ["flip"]}, "add that step to augment"),
    ],
    ids=[
        "average",
        "rotation",
        "tasks",
        "query",
        "smoothing",
        "negative smoothing",
        "area",
        "area of no step",
    ],
)
def test_what_cannot_be_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        recipe(PRETRAIN, **changes)
