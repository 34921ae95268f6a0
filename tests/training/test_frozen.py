"""Training behind a frozen backbone, or behind its frozen blocks."""

from pathlib import Path

import numpy as np
import pytest
import torch

from fewset.core.errors import UserError
from fewset.experiments.embed_set import embed_set
from fewset.experiments.train_run import execute, stage_for
from fewset.experiments.weights import load
from fewset.tasks.sampling import sample_tasks
from tests.helpers.tiny_recipes import FROZEN, MODEL, PARTLY, PRETRAIN, TRAIN, recipe


def test_a_frozen_backbone_stays_as_it_is(runs: Path) -> None:
    execute(recipe(FROZEN), "train", runs / "frozen")
    first, trained = load(runs / "pre"), load(runs / "frozen")
    for name, value in trained.backbone.state_dict().items():
        assert torch.equal(value, first.backbone.state_dict()[name])
    fresh = stage_for(recipe(FROZEN), runs).model.adapter.state_dict()
    assert any(not torch.equal(value, fresh[name]) for name, value in trained.adapter.state_dict().items())
    stage_for(recipe(TRAIN, init="frozen"), runs)  # a start for the whole model


@pytest.mark.parametrize("augment", [[], ["flip"]])
def test_a_frozen_step_is_that_of_the_images_in_evaluation_mode(augment: list[str], runs: Path) -> None:
    """The same tasks, the same images flipped, each through the backbone with its running statistics."""
    tasks = {"augment": augment, "tasks_per_step": 5}
    frozen = stage_for(recipe(FROZEN, **tasks), runs)
    whole = stage_for(recipe(TRAIN, **tasks, freeze_batchnorm=True), runs)
    for stage in (frozen, whole):
        stage.module.eval()  # no dropout
    for number in range(3):
        for one, other in zip(frozen.step(number), whole.step(number), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(frozen.validate().mean, whole.validate().mean, rtol=0, atol=0.02)


def test_frozen_blocks_stay_as_they_are_and_the_others_learn(runs: Path) -> None:
    execute(recipe(PARTLY), "train", runs / "partly")
    first, trained = load(runs / "pre"), load(runs / "partly")
    for name, value in trained.backbone.state_dict().items():
        frozen = name.startswith(("blocks.0.", "blocks.1."))
        assert torch.equal(value, first.backbone.state_dict()[name]) == frozen, name


def test_the_blocks_that_learn_may_keep_their_statistics(runs: Path) -> None:
    execute(recipe(PARTLY, freeze_batchnorm=True), "train", runs / "partly")
    first, trained = load(runs / "pre"), load(runs / "partly")
    kept = {
        name
        for name, value in trained.backbone.state_dict().items()
        if torch.equal(value, first.backbone.state_dict()[name])
    }
    assert {name for name in first.backbone.state_dict() if "running" in name} < kept
    assert not any(name.startswith("blocks.3.") and name.endswith("weight") for name in kept)


@pytest.mark.parametrize("changes", [{}, {"augment": ["flip"]}, {"rotation_classes": 0.6}])
def test_a_step_on_frozen_blocks_is_that_of_the_images_in_evaluation_mode(changes: dict, runs: Path) -> None:
    """Half precision in between."""
    partly = stage_for(recipe(PARTLY, **changes), runs)
    whole = stage_for(recipe(TRAIN, **{"augment": [], **changes}, freeze_batchnorm=True), runs)
    for stage in (partly, whole):
        stage.module.eval()
    for number in range(3):
        steps = partly.step(number), whole.step(number)
        torch.testing.assert_close(steps[0].loss, steps[1].loss, rtol=1e-2, atol=1e-3)
        for step in steps:
            step.loss.backward()
    for (name, mine), theirs in zip(partly.model.named_parameters(), whole.model.parameters(), strict=True):
        if name.startswith(("backbone.blocks.0.", "backbone.blocks.1.")):
            assert mine.grad is None
        else:
            torch.testing.assert_close(
                mine.grad, theirs.grad, rtol=0.05, atol=0.02 * float(theirs.grad.abs().max())
            )
    torch.testing.assert_close(partly.validate().mean, whole.validate().mean, rtol=0, atol=0.02)


@pytest.mark.parametrize("table", [FROZEN, PARTLY])
def test_a_mirror_model_is_validated_as_it_will_be_scored(table: dict, runs: Path) -> None:
    model = {"model": {**TRAIN["model"], "test_time_flip": True}}
    tasks = {"validation_tasks": 200}
    plain = stage_for(recipe(table, **tasks), runs).validate()
    frozen, whole = (stage_for(recipe({**one, **model}, **tasks), runs).validate() for one in (table, TRAIN))
    assert not np.array_equal(plain.per_task, whole.per_task)
    np.testing.assert_allclose(frozen.per_task, whole.per_task, atol=0.35)  # half precision in between
    assert np.mean(frozen.per_task == whole.per_task) > 0.9 > np.mean(plain.per_task == whole.per_task)


@pytest.mark.parametrize(
    ("table", "changes", "message"),
    [
        (FROZEN, {"augment": ["flip", "pad_crop"]}, "each image once"),
        (PARTLY, {"precision": "bfloat16"}, "each image once"),
        (FROZEN, {"freeze_batchnorm": True}, "freeze_batchnorm"),
        (FROZEN, {"frozen_blocks": 1}, "frozen_blocks"),
        (PARTLY, {"frozen_blocks": 4}, "expected 1 to 3"),
        ({**PARTLY, "model": {"backbone": "resnet18"}}, {"init": ""}, "frozen_blocks"),
        ({**FROZEN, "model": MODEL}, {}, "nothing to train but its backbone"),
    ],
)
def test_what_a_frozen_backbone_does_not_have_is_rejected(
    table: dict, changes: dict, message: str, runs: Path
) -> None:
    with pytest.raises(UserError, match=message):
        stage_for(recipe(table, **changes), runs)


@pytest.mark.parametrize("part", [{"freeze_backbone": True}, {"frozen_blocks": 2}], ids=["whole", "blocks"])
def test_a_step_on_frozen_maps_is_that_of_the_images_in_evaluation_mode(part: dict, runs: Path) -> None:
    """Flipped as well; and validation takes the mean with the maps of mirror images, mirrored back."""
    model = {**MODEL, "head": "relation", "test_time_flip": True}
    model["backbone_options"] = {**MODEL["backbone_options"], "halvings": 2}
    tasks = {"augment": ["flip"], "tasks_per_step": 5, "balance": 0.0}
    frozen = stage_for(recipe({**TRAIN, "model": model}, **tasks, **part), runs)
    whole = stage_for(recipe({**TRAIN, "model": model}, **tasks, freeze_batchnorm=True), runs)
    tables = [stage.embed_validation()[0].float() for stage in (frozen, whole)]
    assert tables[0].shape[1:] == (4, 4, 8)
    torch.testing.assert_close(*tables, rtol=1e-2, atol=1e-2)
    for stage in (frozen, whole):
        stage.module.eval()
        stage.model.test_time_flip = False  # training flips by chance
    chosen = sample_tasks(whole.index, whole.spec_of(0), 0, 5)
    maps = [stage.embed_tasks(chosen, 0) for stage in (frozen, whole)]
    torch.testing.assert_close(*maps, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(frozen.step(0).loss, whole.step(0).loss, rtol=1e-3, atol=1e-3)


def test_a_run_on_maps_is_trained_and_scored_and_gives_pooled_rows_where_rows_are_wanted(runs: Path) -> None:
    model = {**MODEL, "head": "relation"}
    result = execute(recipe({**TRAIN, "model": model}, balance=0.0), "train", runs / "maps")
    assert 0 < result.mean < 1
    embed_set(runs / "maps", runs / "rows.npz")
    with np.load(runs / "rows.npz") as rows:
        assert rows["features"].shape[1:] == (8,)
    with pytest.raises(
        UserError, match=r"contrastive term .* works on embeddings, and RelationHead takes maps"
    ):
        stage_for(recipe({**TRAIN, "model": model}), runs).step(0)
    with pytest.raises(UserError, match=r"sets model\.head"):
        stage_for(recipe({**PRETRAIN, "model": model}), runs)
    with pytest.raises(UserError, match="take the adapter 'identity'"):
        stage_for(recipe({**TRAIN, "model": {**model, "adapter": "attention"}}), runs)
