import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewset.data.images.importing import split_classes

# No deadline: the machine may be busy with something else.
quick = settings(deadline=None, max_examples=50)
counts = st.integers(0, 97)
seeds = st.integers(0, 2**31)
shares = st.tuples(st.integers(1, 100), st.integers(0, 100), st.integers(0, 100))


def sizes(classes: int, seed: int = 0, **options: tuple[int, int, int]) -> list[int]:
    return np.bincount(split_classes(classes, seed, **options), minlength=3).tolist()


@quick
@given(st.integers(15, 97), seeds)
def test_from_15_classes_on_5_way_tasks_can_be_drawn_everywhere(classes: int, seed: int) -> None:
    assert min(sizes(classes, seed)) >= 5


@quick
@given(st.integers(3, 14), seeds)
def test_few_classes_are_split_evenly(classes: int, seed: int) -> None:
    train, val, test = sizes(classes, seed)
    assert val == test == classes // 3
    assert train >= val


@pytest.mark.parametrize(
    ("classes", "expected"),
    [(0, [0, 0, 0]), (1, [1, 0, 0]), (2, [2, 0, 0]), (5, [3, 1, 1]), (20, [10, 5, 5]), (100, [64, 16, 20])],
)
def test_the_documented_numbers(classes: int, expected: list[int]) -> None:
    assert sizes(classes) == expected


@pytest.mark.parametrize("shares", [(100, 50, 50), (25, 15, 25), (351, 97, 160)])
def test_exact_numbers_of_classes(shares: tuple[int, int, int]) -> None:
    assert sizes(sum(shares), shares=shares) == list(shares)
