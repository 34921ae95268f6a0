import numpy as np
import pytest

from fewset.evaluation.principal_plane import principal_plane


def points(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(37, 11)) * np.linspace(1, 3, 11) + 5


def test_the_plane_is_that_of_the_covariance() -> None:
    plane = principal_plane(points())
    np.testing.assert_allclose(plane.centre, [sum(column) / 37 for column in points().T])
    values, vectors = np.linalg.eigh(np.cov(points().T))  # ascending
    for direction, expected in zip(plane.directions, (vectors[:, -1], vectors[:, -2]), strict=True):
        np.testing.assert_allclose(abs(direction @ expected), 1)
        assert direction[np.abs(direction).argmax()] > 0
    np.testing.assert_allclose(plane.places(points()).var(axis=0, ddof=1), values[[-1, -2]])
    assert plane.shown == pytest.approx(values[-2:].sum() / values.sum())


@pytest.mark.parametrize("count", [1, 2])
def test_one_or_two_points_have_a_plane_too(count: int) -> None:
    plane = principal_plane(points()[:count])
    assert plane.places(points()[:count]).shape == (count, 2)
    assert plane.shown == pytest.approx(1)
