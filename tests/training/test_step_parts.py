"""The parts of a step: each its own tasks and draws, together the whole step."""

import pytest

from fewset.core.errors import UserError
from fewset.training.step_parts import Part, PerStep, check_parts


def test_parts_are_of_equal_size_and_cover_a_step() -> None:
    assert [Part(number, 3).bounds(6) for number in range(3)] == [(0, 2), (2, 4), (4, 6)]
    assert Part().bounds(7) == (0, 7)


def test_a_step_that_cannot_be_divided_is_refused() -> None:
    check_parts(PerStep("train.tasks_per_step", 6), 3)
    with pytest.raises(UserError, match=r"is 1, .* among 3 processes; .*--set train\.tasks_per_step=3"):
        check_parts(PerStep("train.tasks_per_step", 1), 3)
    with pytest.raises(UserError, match=r"--set pretrain\.batch=126"):
        check_parts(PerStep("pretrain.batch", 128), 3)


def test_no_two_parts_share_a_seed() -> None:
    seeds = [Part(number, 5).seed for number in range(5)]
    assert len(set(seeds)) == 5
    assert seeds[0] == Part().seed == ()
