"""Where a training starts from: weights that may have been trained on held-out items are rejected."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.data.images.store import ImageSet, open_set, set_path, write_store
from fewset.experiments.config import Recipe
from fewset.experiments.recipes import parse_recipe, recipe_text
from fewset.experiments.train_run import execute, stage_for
from fewset.experiments.weights import save_weights
from tests.helpers.tiny_recipes import PRETRAIN, TRAIN

pytestmark = pytest.mark.usefixtures("tiny_set")


def copy_of_tiny(name: str, source: str, brighter: int, tiny_set: ImageSet) -> ImageSet:
    """The labels of "tiny", and its images changed a little."""
    with write_store(
        set_path(name),
        size=20,
        labels=tiny_set.labels,
        class_names=tiny_set.class_names,
        splits=tiny_set.splits,
        source=source,
    ) as draft:
        draft.images[:] = np.clip(tiny_set.images.astype(int) + brighter, 0, 255)
    return open_set(name)


@pytest.fixture
def other(tiny_set: ImageSet) -> ImageSet:
    return copy_of_tiny("other", "folder /elsewhere", 11, tiny_set)


def first_on(name: str, runs: Path, held_out: float = 0.0, run: str = "first", init: str = "") -> None:
    """A pre-training on a set, of no epochs where it has a start."""
    stage = {**PRETRAIN["pretrain"], "epochs": 0 if init else 1, "init": init}
    recipe = parse_recipe(
        {**PRETRAIN, "name": run, "data": {"set": name, "hold_out": held_out}, "pretrain": stage}
    )
    execute(recipe, "pretrain", runs / run)


def holding_out(init: str = "first") -> Recipe:
    train = {**TRAIN["train"], "init": init}
    return parse_recipe({**TRAIN, "data": {"set": "tiny", "hold_out": 0.4}, "train": train})


def error_of(runs: Path, init: str = "first") -> str:
    with pytest.raises(UserError, match="holds out items") as error:
        stage_for(holding_out(init), runs)
    return str(error.value)


@pytest.mark.usefixtures("other")
def test_weights_of_another_set_know_nothing(tmp_path: Path) -> None:
    first_on("other", tmp_path)
    stage_for(holding_out(), tmp_path)


def test_weights_of_a_set_that_is_not_here_know_nothing_of_one_with_another_name(tmp_path: Path) -> None:
    """As a released model: a recipe and weights, trained on a set that was never imported here."""
    (tmp_path / "first").mkdir()
    recipe = parse_recipe({**PRETRAIN, "data": {"set": "miniimagenet"}})
    model = stage_for(parse_recipe(PRETRAIN), tmp_path).model
    save_weights(model, recipe.model, tmp_path / "first" / "model.safetensors")
    (tmp_path / "first" / "recipe.toml").write_text(recipe_text(recipe))
    stage_for(holding_out(), tmp_path)
    weights = tmp_path / "first" / "model.safetensors"  # alone they do not say what they were trained on
    assert f"{weights} was not trained without" in error_of(tmp_path, str(weights))


@pytest.mark.parametrize(("source", "brighter"), [("folder /elsewhere", 0), ("made by a test", 11)])
def test_the_same_images_under_another_name_are_known(
    source: str, brighter: int, tiny_set: ImageSet, tmp_path: Path
) -> None:
    """The same digest; or the same source, imported at another size perhaps."""
    copy = copy_of_tiny("copy", source, brighter, tiny_set)
    if not brighter:  # domains are part of the digest, so an own copy has another: take the very same set
        for file in tiny_set.path.iterdir():
            (copy.path / file.name).write_bytes(file.read_bytes())
    for name in ("copy", str(copy.path)):
        first_on(name, tmp_path)
        error_of(tmp_path)
        shutil.rmtree(tmp_path / "first")


@pytest.mark.usefixtures("other")
def test_where_the_weights_started_from_counts_too(tmp_path: Path) -> None:
    first_on("tiny", tmp_path, run="zeroth")
    first_on("other", tmp_path, init="zeroth")
    error_of(tmp_path)
    shutil.rmtree(tmp_path / "zeroth")  # a start that is not found may be of the same set
    error_of(tmp_path)
    first_on("other", tmp_path, run="third")
    first_on("other", tmp_path, run="fourth", init="third")
    (tmp_path / "third" / "recipe.toml").write_text((tmp_path / "fourth" / "recipe.toml").read_text())
    stage_for(holding_out("fourth"), tmp_path)  # which started from itself, as it seems
    first_on("tiny", tmp_path, 0.4, run="blind")
    first_on("other", tmp_path, run="second", init="blind")
    stage_for(holding_out("second"), tmp_path)


def test_held_out_items_of_an_earlier_version_of_the_set_are_others(
    tiny_set: ImageSet, tmp_path: Path
) -> None:
    first_on("tiny", tmp_path, 0.4)
    stage_for(holding_out(), tmp_path)
    copy_of_tiny("tiny", "made by a test", 11, tiny_set)
    error_of(tmp_path)


def test_a_run_does_not_go_on_with_other_data(tiny_set: ImageSet, tmp_path: Path) -> None:
    first_on("tiny", tmp_path)
    run = tmp_path / "first"
    assert json.loads((run / "environment.json").read_text())["data_digest"] == tiny_set.digest
    (run / "result.json").unlink()
    copy_of_tiny("tiny", "made by a test", 11, tiny_set)
    recipe = parse_recipe({**PRETRAIN, "name": "first", "pretrain": {**PRETRAIN["pretrain"], "epochs": 1}})
    with pytest.raises(UserError, match=r"'tiny' is not the one that .*first began with.*--force"):
        execute(recipe, "pretrain", run, resume=True)
