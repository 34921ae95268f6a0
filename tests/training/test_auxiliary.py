"""The classes of the train split beside the tasks: its weight, its labels, and what it is kept with."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fewset.core.errors import UserError
from fewset.data.images.store import open_set
from fewset.experiments.train_run import execute, stage_for
from fewset.experiments.weights import load
from fewset.tasks.sampling import sample_tasks
from tests.helpers.tiny_recipes import FROZEN, MODEL, TRAIN, recipe

WEIGHED = {"balance": 0.0, "auxiliary": 0.7}


@pytest.mark.parametrize("head", ["ridge", "relation", "tadam"])
def test_a_step_is_that_of_its_tasks_and_the_weighed_cross_entropy_of_all_classes(
    head: str, runs: Path
) -> None:
    model = {**MODEL, "head": head, "average": "post"}
    stage = stage_for(recipe({**FROZEN, "model": {**model, "adapter": "identity"}}, **WEIGHED), runs)
    stage.module.eval()
    items = sample_tasks(stage.index, stage.spec_of(11), 11, 12)
    with torch.no_grad():
        embedded = stage.embed_tasks(items, 11)
        both, weight = stage.step(11).loss, stage.auxiliary.classifier.weight.numpy()
        stage.auxiliary = None
        alone = stage.step(11).loss
        rows = embedded.flatten(1, 2)
        if head == "tadam":
            rows = stage.model.head.embed(rows)
        elif head == "relation":
            rows = rows.mean(dim=(2, 3))
    bias = stage.module["auxiliary"].classifier.bias.detach().numpy()
    classes = open_set("tiny").select("train").labels
    labels = np.searchsorted(np.unique(classes), classes[items.ravel()])
    losses = []
    for row, label in zip(rows[0].numpy(), labels, strict=True):
        logits = weight @ row + bias
        losses.append(np.log(np.exp(logits).sum()) - logits[label])
    share = 0.9 ** ((20 * 11) // 15)  # the twelfth of fifteen steps
    assert (both - alone).item() == pytest.approx(0.7 * share * np.mean(losses), rel=1e-4)


def test_its_layer_learns_and_is_kept_in_checkpoints_but_not_in_the_weights(runs: Path) -> None:
    changed = recipe({**TRAIN, "model": {**MODEL, "head": "tadam", "average": "post"}}, **WEIGHED)
    stage = stage_for(changed, runs)
    assert "auxiliary.classifier.weight" in stage.module.state_dict()
    learning = {id(each) for group in stage.optimiser.param_groups for each in group["params"]}
    assert learning == {id(each) for each in stage.module.parameters()}
    execute(changed, "train", runs / "tadam")
    assert not any("auxiliary" in name for name in load(runs / "tadam").state_dict())


def test_it_does_not_go_with_rotated_classes() -> None:
    with pytest.raises(UserError, match="rotation_classes"):
        recipe(TRAIN, auxiliary=1.0, rotation_classes=0.5)
