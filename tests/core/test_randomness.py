"""Seeds and streams: their range, and values that released results depend on."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.core.randomness import Stream, check_seed, mix
from fewset.data.features.importer import import_features
from fewset.data.images.importing import import_set, split_classes
from fewset.experiments.recipes import parse_recipe
from fewset.tasks.hold_out import hold_out
from fewset.tasks.spec import TaskSpec
from tests.helpers.command_line import fail
from tests.helpers.trees import as_directory, assert_nothing_was_written, folder

TAKING_A_SEED: dict[str, Callable[[int], object]] = {
    "check": check_seed,
    "mix": lambda seed: mix(0, seed),
    "tasks": lambda seed: TaskSpec(seed=seed),
    "recipe": lambda seed: parse_recipe({"name": "a", "train": {"epochs": 1}, "seed": seed}),
    "held-out items": lambda seed: hold_out(np.repeat([0, 1], 8), 0.5, seed),
    "split of classes": lambda seed: split_classes(7, seed),
}


@pytest.mark.parametrize("take", TAKING_A_SEED.values(), ids=TAKING_A_SEED.keys())
def test_a_seed_is_from_0_to_63_bits(take: Callable[[int], object]) -> None:
    take(2**63 - 1)
    for seed in (-1, 2**63):
        with pytest.raises(UserError, match=f"seed is {seed}"):
            take(seed)


def test_imports_reject_a_seed_before_they_read_anything(tmp_path: Path) -> None:
    source = as_directory(folder(), tmp_path)
    with pytest.raises(UserError, match="seed"):
        import_set("folder", source, seed=-1)
    np.savez(tmp_path / "a.npz", features=np.ones((4, 3)))  # has no labels, which would be the next complaint
    with pytest.raises(UserError, match="seed"):
        import_features(tmp_path / "a.npz", seed=-1)
    assert_nothing_was_written()
    assert "seed" in fail("train", "strokes/feat", "--set", "seed=-1", "--runs", tmp_path)


def test_mix_depends_on_every_part_and_their_order() -> None:
    seeds = {mix(*parts) for parts in [(0,), (0, 0), (1, 0), (0, 1), (1, 1), (0, 0, 1)]}
    assert len(seeds) == 6
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_seeds_stay_those_of_released_results() -> None:
    assert mix(0, 0, Stream.MODEL_WEIGHTS) == mix(0, 0, 4) == 1521746186802936047
    assert sorted({int(stream) for stream in Stream}) == [*range(1, 8), *range(10, 16), 21]
