from math import gamma, pi, sqrt

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.tasks.scores import Score, compare, interval95
from fewset.tasks.spec import TaskSpec


def student_density(t: np.ndarray, freedom: int) -> np.ndarray:
    scale = gamma((freedom + 1) / 2) / (sqrt(freedom * pi) * gamma(freedom / 2))
    return scale * (1 + t**2 / freedom) ** (-(freedom + 1) / 2)


def naive_deviation(values: np.ndarray) -> float:
    exact = [float(value) for value in values]
    mean = sum(exact) / len(exact)
    return sqrt(sum((value - mean) ** 2 for value in exact) / (len(exact) - 1))


@pytest.mark.parametrize("count", [*range(2, 33), 101])
def test_the_interval_is_that_of_students_t(count: int) -> None:
    """The factor of the standard error leaves 95 % of Student's density between itself and its negative."""
    values = np.random.default_rng(count).uniform(size=count)
    factor = interval95(values) * sqrt(count) / naive_deviation(values)
    places = np.linspace(-factor, factor, 200_001)
    assert np.trapezoid(student_density(places, count - 1), places) == pytest.approx(0.95, abs=1e-8)


def test_one_value_has_no_interval() -> None:
    assert np.isnan(interval95(np.ones(1)))


def test_a_score_is_computed_in_double_precision() -> None:
    values = np.random.default_rng(0).uniform(size=37).astype(np.float32)
    score = Score.of(values)
    assert score.mean == pytest.approx(sum(float(value) for value in values) / 37, rel=1e-12)
    assert score.ci95 == pytest.approx(2.028094000980 * naive_deviation(values) / sqrt(37), rel=1e-9)
    assert str(Score(0.5, 0.01, values)) == "50.00 ± 1.00 %"


def test_compare_is_paired() -> None:
    generator = np.random.default_rng(0)
    difficulty = generator.uniform(size=101)
    first, second = Score.of(difficulty + 0.02), Score.of(difficulty + 0.001 * generator.normal(size=101))
    difference = compare(first, second)
    assert difference.mean == pytest.approx(first.mean - second.mean)
    assert difference.ci95 == pytest.approx(interval95(first.per_task - second.per_task))
    assert difference.ci95 < first.ci95 / 50  # the tasks' difficulty cancels
    assert difference.excludes_zero
    assert not compare(first, first).excludes_zero


def test_compare_rejects_scores_of_different_tasks() -> None:
    values, spec = np.linspace(0, 1, 7), TaskSpec(tasks=7)
    specs = [(spec, "a"), (TaskSpec(tasks=7, seed=1), "a"), (spec, "b")]
    scores = [Score.of(values, *tasks) for tasks in specs]
    with pytest.raises(UserError, match="7 and 5 tasks"):
        compare(scores[0], Score.of(np.ones(5)))
    for other in scores[1:]:
        with pytest.raises(UserError, match="of different tasks"):
            compare(scores[0], other)
    for other in (scores[0], Score.of(values)):  # a score may lack them
        assert compare(scores[0], other).mean == 0
