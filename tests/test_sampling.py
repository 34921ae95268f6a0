import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewset.errors import UserError
from fewset.sampling import ClassIndex, TaskSpec, mix, sample_tasks


def shuffled_labels(counts: list[int], seed: int = 0) -> np.ndarray:
    """Labels that are neither sorted nor contiguous, `counts` items of each class."""
    labels = np.repeat(10 * np.arange(len(counts)) + 3, counts)
    return np.random.default_rng(seed).permutation(labels)


@settings(max_examples=50, deadline=None)
@given(
    counts=st.lists(st.integers(5, 11), min_size=3, max_size=7),
    way=st.integers(1, 3),
    shot=st.integers(1, 2),
    query=st.integers(1, 3),
    seed=st.integers(0, 2**40),
)
def test_a_task_is_distinct_items_of_distinct_classes(
    counts: list[int], way: int, shot: int, query: int, seed: int
) -> None:
    labels = shuffled_labels(counts)
    rows = sample_tasks(ClassIndex(labels), TaskSpec(way, shot, query, 13, seed), 0, 13)
    assert rows.shape == (13, way, shot + query)
    for task in rows:
        assert len(np.unique(task)) == task.size
        assert (labels[task] == labels[task][:, :1]).all()
        assert len(np.unique(labels[task][:, 0])) == way


def test_task_number_i_is_a_pure_function_of_seed_and_i() -> None:
    index = ClassIndex(shuffled_labels([7, 11, 13, 7, 9]))
    spec = TaskSpec(way=3, shot=2, query=3, tasks=29, seed=5)
    together = sample_tasks(index, spec, 0, 29)
    alone = np.concatenate([sample_tasks(index, spec, number, number + 1) for number in reversed(range(29))])
    np.testing.assert_array_equal(together, alone[::-1])


def test_seeds_and_numbers_give_different_tasks() -> None:
    index = ClassIndex(shuffled_labels([31] * 17))
    draws = {
        sample_tasks(index, TaskSpec(seed=seed), number, number + 1).tobytes()
        for seed in range(7)
        for number in range(11)
    }
    assert len(draws) == 77


def test_classes_and_items_are_drawn_uniformly() -> None:
    labels = np.repeat(np.arange(7), 11)
    rows = sample_tasks(ClassIndex(labels), TaskSpec(way=3, shot=1, query=2, tasks=20_000), 0, 20_000)
    # Each of the 77 items is expected 20,000 * 9 / 77 times; the deviation of a binomial count is about 47.
    expected = rows.size / 77
    np.testing.assert_allclose(np.bincount(rows.ravel(), minlength=77), expected, atol=5 * np.sqrt(expected))
    # ... and so is each place in a task: the first shot of the first class as well.
    first = np.bincount(rows[:, 0, 0], minlength=77)
    np.testing.assert_allclose(first, 20_000 / 77, atol=5 * np.sqrt(20_000 / 77))


def test_a_pinned_task_guards_the_published_numbers() -> None:
    rows = sample_tasks(
        ClassIndex(np.repeat(np.arange(5), 7)), TaskSpec(way=2, shot=1, query=2, seed=1), 3, 4
    )
    assert rows.tolist() == [[[30, 28, 34], [10, 11, 12]]]


def test_too_few_classes_is_named() -> None:
    with pytest.raises(UserError, match=r"5 ways were asked for, but there are 3 classes"):
        sample_tasks(ClassIndex(shuffled_labels([9] * 3)), TaskSpec(way=5, shot=1, query=1), 0, 1)


def test_the_class_with_too_few_items_is_named() -> None:
    index = ClassIndex(np.repeat([0, 1, 2], [9, 4, 9]), ["ash", "birch", "cedar"])
    with pytest.raises(UserError, match=r"class 'birch' has 4 items, but shot \+ query = 6"):
        sample_tasks(index, TaskSpec(way=2, shot=1, query=5), 0, 1)


@pytest.mark.parametrize("name", ["way", "shot", "query", "tasks"])
def test_a_spec_refuses_zero(name: str) -> None:
    with pytest.raises(UserError, match=f"{name} is 0, expected 1 or more"):
        TaskSpec(**{name: 0})


def test_mix_depends_on_every_part_and_their_order() -> None:
    seeds = {mix(*parts) for parts in [(0,), (0, 0), (1, 0), (0, 1), (1, 1), (0, 0, 1)]}
    assert len(seeds) == 6
    assert all(0 <= seed < 2**63 for seed in seeds)
