import json
from pathlib import Path

import numpy as np
import pytest
import torch

from fewset.core.errors import UserError
from fewset.data.images.store import ImageSet
from fewset.experiments.train_run import execute, stage_for
from fewset.training.loop import train_step
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"average": 1.0}, "average"),
        ({"validation_tasks": 0}, "validation_tasks"),
        ({"validation_query": -3}, "validation_query"),
        ({"label_smoothing": 2.0}, "label_smoothing"),
        ({"label_smoothing": -0.1}, "label_smoothing"),
    ],
)
def test_impossible_values_are_rejected(changes: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        recipe(PRETRAIN, **changes)
