"""Seeds: every place that takes one refuses the same numbers, in the same words."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.data.features.importer import import_features
from fewset.data.images.importing import import_set
from fewset.data.images.splits import split_classes
from fewset.experiments.build import build_model
from fewset.experiments.config import ModelConfig
from fewset.experiments.recipes import parse_recipe
from fewset.tasks.hashing import check_seed, mix
from fewset.tasks.hold_out import hold_out
from fewset.tasks.spec import TaskSpec
from tests.helpers.command_line import fail
from tests.helpers.trees import as_directory, assert_nothing_was_written, folder

RECIPE = {"name": "a", "train": {"epochs": 1}}
TAKING_A_SEED: dict[str, Callable[[int], object]] = {
    "check": check_seed,
    "mix": lambda seed: mix(0, seed),
    "tasks": lambda seed: TaskSpec(seed=seed),
    "recipe": lambda seed: parse_recipe({**RECIPE, "seed": seed}),
    "tasks of a recipe": lambda seed: parse_recipe({**RECIPE, "evaluate": {"seed": seed}}),
    "items held out": lambda seed: hold_out(np.repeat([0, 1], 8), 0.5, seed),
    "split of classes": lambda seed: split_classes(7, seed),
    "initial weights": lambda seed: build_model(ModelConfig(backbone_options={"input_size": 16}), seed),
}


@pytest.mark.parametrize("seed", [-1, -(2**70), 2**63, 2**64, 2**70])
@pytest.mark.parametrize("take", TAKING_A_SEED.values(), ids=TAKING_A_SEED.keys())
def test_a_seed_out_of_range_is_refused(take: Callable[[int], object], seed: int) -> None:
    with pytest.raises(UserError, match=rf"seed is {seed}, expected a whole number from 0 to 2\*\*63 - 1"):
        take(seed)


@pytest.mark.parametrize("take", TAKING_A_SEED.values(), ids=TAKING_A_SEED.keys())
def test_the_largest_seed_is_a_seed(take: Callable[[int], object]) -> None:
    take(2**63 - 1)


def test_imports_refuse_a_seed_before_they_read_anything(tmp_path: Path) -> None:
    source = as_directory(folder(), tmp_path)
    with pytest.raises(UserError, match="seed is -1, expected"):
        import_set("folder", source, seed=-1)
    np.savez(tmp_path / "a.npz", features=np.ones((4, 3)))  # has no labels, which would be the next complaint
    with pytest.raises(UserError, match="seed is -1, expected"):
        import_features(tmp_path / "a.npz", seed=-1)
    assert_nothing_was_written()
    assert "seed is -1, expected" in fail("data", "import", "folder", source, "--seed", -1)


@pytest.mark.parametrize("key", ["seed", "evaluate.seed"])
def test_the_command_line_refuses_a_seed(key: str, tmp_path: Path) -> None:
    assert "seed is -1, expected" in fail("train", "strokes/feat", "--set", f"{key}=-1", "--runs", tmp_path)
    assert not list(tmp_path.glob("strokes*"))


def test_mix_depends_on_every_part_and_their_order() -> None:
    seeds = {mix(*parts) for parts in [(0,), (0, 0), (1, 0), (0, 1), (1, 1), (0, 0, 1)]}
    assert len(seeds) == 6
    assert all(0 <= seed < 2**63 for seed in seeds)
