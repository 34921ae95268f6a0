"""The size at which images were stored that a model was trained on, and the warning about another one."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from fewset.data.images.store import ImageSet, open_set, set_path, write_store
from fewset.experiments.recipes import run_recipe
from fewset.experiments.score_run import evaluate_run, warn_of_scale
from fewset.experiments.weights import find_weights, load_weights, released_models, save_weights, stored_size


def stored_at(images: ImageSet, name: str, size: int) -> ImageSet:
    """The same labels, with grey images of another size."""
    with write_store(
        set_path(name),
        size=size,
        labels=images.labels,
        class_names=images.class_names,
        splits=images.splits,
        source="made by a test",
    ) as draft:
        draft.images[:] = np.random.default_rng(0).integers(0, 256, draft.images.shape)
    return open_set(name)


def test_a_set_at_another_size_is_warned_of_in_one_line(runs: Path, tiny_set: ImageSet) -> None:
    assert stored_size(runs / "pre" / "model.safetensors") == tiny_set.size == 20
    stored_at(tiny_set, "larger", 23)
    with pytest.warns(
        UserWarning, match=r"'larger' is stored at 23 px, .*pre was trained .* 20 px.*--size 20$"
    ):
        evaluate_run(runs / "pre", data="larger")
    stored_at(tiny_set, "alike", 20)
    with warnings.catch_warnings(action="error"):
        evaluate_run(runs / "pre")
        evaluate_run(runs / "pre", data="alike")


def test_older_weights_were_trained_on_the_default_size_of_their_layout(tiny_set: ImageSet) -> None:
    run = released_models()["miniimagenet-conv4-protonet-1shot"]
    assert stored_size(find_weights(run)) is None
    with pytest.warns(UserWarning, match="trained on images stored at 92 px"):
        warn_of_scale(run, run_recipe(run), tiny_set)
    with warnings.catch_warnings(action="error"):
        warn_of_scale(run, run_recipe(run), stored_at(tiny_set, "miniimagenet", 92))


def test_without_a_recorded_size_a_custom_set_is_not_warned_of(runs: Path, tiny_set: ImageSet) -> None:
    model, config = load_weights(runs / "pre" / "model.safetensors")
    save_weights(model, config, runs / "pre" / "model.safetensors")
    with warnings.catch_warnings(action="error"):
        evaluate_run(runs / "pre", data=stored_at(tiny_set, "larger", 23).name)
