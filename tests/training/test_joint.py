"""Joint training: what the loss of a step is, and how embeddings are divided again."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fewset.core.errors import UserError
from fewset.experiments.train_run import execute, stage_for
from fewset.experiments.weights import load
from fewset.models.losses import task_loss
from fewset.tasks.episode import split
from fewset.training import joint
from fewset.training.batches import embed_batch
from tests.helpers.tiny_recipes import JOINT, TRAIN, recipe


def test_the_loss_is_that_of_all_images_and_the_weighted_task_loss(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stage_for(recipe(JOINT, balance=0.0), runs)
    stage.module.eval()
    seen = []

    def embed(model: object, images: torch.Tensor, precision: object) -> torch.Tensor:
        seen.append(embed_batch(model, images, precision))  # type: ignore[arg-type]
        return seen[-1]

    monkeypatch.setattr(joint, "embed_batch", embed)
    with torch.no_grad():
        loss = stage.step(7).loss.item()
        rows = seen[0]
        items = stage.tasks_of(7)[1]
        in_tasks = rows[13:].view(*items.shape, -1)
        splits = joint.resplit(in_tasks, 4, torch.Generator().manual_seed(stage.split_seed(7)))
        tasks = []
        for one in splits:
            support, query, labels = split(one.unsqueeze(0), 2)
            tasks.append(task_loss(stage.model(support, query), labels).mean().item())
    weight, bias = (value.detach().numpy() for value in stage.classes.classifier.parameters())
    labels = [stage.classes.class_of[each] for each in (stage.batch_of(7), items.ravel())]
    logits = rows.numpy() @ weight.T + bias
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(logits)), np.concatenate(labels)]
    assert len(losses) == 13 + 3 * 5
    assert loss == pytest.approx(losses[:13].mean() + losses[13:].mean() + 0.3 * np.mean(tasks), rel=1e-4)


def test_a_task_is_divided_again_within_its_classes() -> None:
    tasks = torch.arange(2 * 3 * 5).view(2, 3, 5, 1).expand(2, 3, 5, 7).float()
    again = joint.resplit(tasks, 11, torch.Generator().manual_seed(3))
    assert again.shape == (22, 3, 5, 7)
    assert torch.equal(again[:2], tasks)
    assert torch.equal(again.sort(dim=2).values, tasks.repeat(11, 1, 1, 1))
    assert len({tuple(each) for each in again[::2, 0, :, 0].tolist()}) > 5


def test_batches_differ_by_step_and_the_classifier_is_not_in_the_weights(runs: Path) -> None:
    stage = stage_for(recipe(JOINT), runs)
    assert set(stage.batch_of(0)) != set(stage.batch_of(1))
    assert len(set(stage.batch_of(0))) == 13
    execute(recipe(JOINT), "train", runs / "joint")
    assert not any("classes" in name for name in load(runs / "joint").state_dict())


@pytest.mark.parametrize("change", [{"frozen_blocks": 2, "augment": []}, {"auxiliary": 0.5}])
def test_it_needs_the_whole_backbone_and_no_second_classifier(change: dict) -> None:
    with pytest.raises(UserError):
        recipe(JOINT, **change)
    with pytest.raises(UserError):
        recipe(TRAIN, joint={"batch": 0})
