"""Compiled loops draw the very tasks that NumPy draws."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewset.tasks import sampling
from fewset.tasks.drawing_loop import MOST, find_smallest, hashed
from fewset.tasks.hashing import START, hash_keys
from fewset.tasks.sampling import ClassIndex, sample_tasks
from fewset.tasks.spec import TaskSpec
from tests.helpers.labels import shuffled_labels


def refuse(*_: object) -> None:
    raise AssertionError("these tasks are to be drawn by the loop")


def both(index: ClassIndex, spec: TaskSpec, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """The tasks of NumPy and those of the loop, which must not ask NumPy."""
    expected = sample_tasks(index, spec, first, last)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "_draw", refuse)
        return expected, sample_tasks(index, spec, first, last, compiled=True)


@settings(max_examples=200, deadline=None)
@given(
    counts=st.lists(st.integers(6, 90), min_size=4, max_size=30),
    way=st.integers(1, 4),
    shot=st.integers(1, 3),
    query=st.integers(1, 3),
    seed=st.integers(0, 2**63 - 1),
    first=st.integers(0, 10**8),
)
def test_the_same_rows_whatever_the_sizes(
    counts: list[int], way: int, shot: int, query: int, seed: int, first: int
) -> None:
    index = ClassIndex(shuffled_labels(counts))
    expected, drawn = both(index, TaskSpec(way, shot, query, seed=seed), first, first + 5)
    np.testing.assert_array_equal(drawn, expected)


@pytest.mark.parametrize(
    ("classes", "items", "sizes"),
    [
        (20, 600, {}),
        (64, 600, {"shot": 5}),
        (5, 16, {}),  # all items of all classes
        (1, 1301, {"way": 1, "shot": 30, "query": 70}),
        (351, 37, {"way": 20, "shot": 5}),
    ],
)
def test_the_same_rows_for_thousands_of_tasks(classes: int, items: int, sizes: dict[str, int]) -> None:
    index = ClassIndex(np.repeat(np.arange(classes), items))
    expected, drawn = both(index, TaskSpec(seed=3, **sizes), 0, 1000)
    assert drawn.dtype == expected.dtype
    np.testing.assert_array_equal(drawn, expected)


def test_no_task_is_drawn_where_none_is_asked_for() -> None:
    expected, drawn = both(ClassIndex(np.repeat(np.arange(5), 20)), TaskSpec(), 7, 7)
    assert drawn.shape == expected.shape == (0, 5, 16)


def test_the_hash_is_that_of_numpy() -> None:
    state = START
    for part in (7, 0, 2**63 - 1, 12345):
        state = hashed(state, np.uint64(part))
    assert np.uint64(state) == hash_keys(7, 0, 2**63 - 1, 12345)


@settings(max_examples=300, deadline=None)
@given(
    keys=st.lists(
        st.one_of(st.integers(0, 2), st.integers(2**64 - 2, 2**64 - 1), st.integers(0, 2**64 - 1)),
        min_size=1,
        max_size=40,
    ),
    percent=st.integers(0, 100),
)
def test_of_equal_keys_the_first_comes_first(keys: list[int], percent: int) -> None:
    """Real keys are hardly ever equal, so that no draw would show it."""
    given, count = np.array(keys, dtype=np.uint64), 1 + percent * (len(keys) - 1) // 100
    found, room = np.empty(count, dtype=np.int64), len(keys) + 1
    find_smallest(given, found, np.empty(room, dtype=np.uint64), np.empty(room, dtype=np.int64))
    np.testing.assert_array_equal(found, np.argsort(given, kind="stable")[:count])


def test_keys_that_are_all_large_are_found_by_a_higher_limit() -> None:
    keys = np.arange(2**64 - 1, 2**64 - 1000, -3, dtype=np.uint64)
    found, room = np.empty(7, dtype=np.int64), len(keys) + 1
    find_smallest(keys, found, np.empty(room, dtype=np.uint64), np.empty(room, dtype=np.int64))
    np.testing.assert_array_equal(found, np.argsort(keys)[:7])


def test_other_tasks_are_drawn_by_numpy() -> None:
    """Of two domains, or with more items than a comparison of each with each is for."""
    labels, half = np.repeat(np.arange(5), 300), np.arange(1500) % 2 == 0
    for index, spec in (
        (ClassIndex(labels, support=half, query=~half), TaskSpec(shot=2)),
        (ClassIndex(labels, origins=np.arange(1500) // 2, domains=half.astype(int)), TaskSpec(shot=2)),
        (ClassIndex(labels), TaskSpec(query=MOST)),
    ):
        expected = sample_tasks(index, spec, 0, 11)
        np.testing.assert_array_equal(sample_tasks(index, spec, 0, 11, compiled=True), expected)
