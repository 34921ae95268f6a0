"""Unbalanced queries: how they are shared out, and that a task depends on the seed and its number alone."""

from dataclasses import replace

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.tasks.sampling import ClassIndex, sample_tasks
from fewset.tasks.spec import TaskSpec
from fewset.tasks.unbalanced import check_unbalanced, query_counts, sample_unbalanced
from tests.helpers.labels import shuffled_labels

SPEC = TaskSpec(way=3, shot=2, query=5, tasks=31, seed=7)
LABELS = shuffled_labels([17, 19, 23, 17])


@pytest.mark.parametrize("concentration", [1, 2, 7])
def test_shares_have_the_moments_of_the_dirichlet_distribution(concentration: int) -> None:
    """Of parameters a each: mean 1 / N, variance (1 / N) (1 - 1 / N) / (N a + 1), covariance below 0."""
    spec = TaskSpec(way=5, query=1000, seed=3)
    shares = query_counts(spec, concentration, 0, 20_000) / 5000
    variance = 0.2 * 0.8 / (5 * concentration + 1)
    np.testing.assert_allclose(shares.mean(axis=0), 0.2, atol=0.005)
    np.testing.assert_allclose(shares.var(axis=0), variance, rtol=0.05)
    covariance = np.cov(shares[:, 0], shares[:, 1])[0, 1]
    assert covariance == pytest.approx(-variance / 4, rel=0.2)


def test_a_class_may_have_no_query_and_the_sum_is_always_the_same() -> None:
    counts = query_counts(TaskSpec(way=5, query=15), 2, 0, 3000)
    assert (counts.sum(axis=1) == 75).all()
    assert counts.min() == 0
    assert counts.max() > 45


def test_a_task_is_a_pure_function_of_seed_and_number() -> None:
    index = ClassIndex(LABELS)
    together = sample_unbalanced(index, SPEC, 2, 0, 31)
    for number in (0, 13, 30):
        alone = sample_unbalanced(index, SPEC, 2, number, number + 1)
        for each, all_of_them in zip(alone, together, strict=True):
            np.testing.assert_array_equal(each[0], all_of_them[number])
    other = sample_unbalanced(index, replace(SPEC, seed=8), 2, 0, 31)
    assert not np.array_equal(other.query_labels, together.query_labels)


def test_queries_are_distinct_items_of_the_class_that_is_said_and_shots_stay() -> None:
    index = ClassIndex(LABELS)
    support, query, labels = (each.numpy() for each in sample_unbalanced(index, SPEC, 2, 0, 31))
    np.testing.assert_array_equal(support, sample_tasks(index, SPEC, 0, 31)[:, :, :2])
    for task in range(31):
        assert len({*support[task].flat, *query[task]}) == 3 * 2 + 15
        np.testing.assert_array_equal(LABELS[query[task]], LABELS[support[task, labels[task], 0]])


def test_rejects_what_could_not_be_drawn() -> None:
    check_unbalanced(ClassIndex(LABELS), SPEC)
    with pytest.raises(UserError, match=r"all 18 queries of a task \(3 x 6\) .* has 15 besides"):
        check_unbalanced(ClassIndex(LABELS), replace(SPEC, query=6))
