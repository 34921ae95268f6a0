"""Random numbers, curves, distances and smooth noise, against slow and obvious versions of them."""

from itertools import pairwise

import numpy as np
import pytest

from fewset.data.images import drawing

ONE, OTHER = 1, 2  # what a random number is for


def test_random_numbers_are_spread_evenly() -> None:
    drawn = drawing.uniform(10_007, ONE, 0, np.arange(3))
    assert drawn.shape == (3, 10_007)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert np.abs(np.histogram(drawn, bins=10)[0] / drawn.size - 0.1).max() < 0.01
    assert np.abs(np.corrcoef(drawn) - np.eye(3)).max() < 0.03
    normal = drawing.bell(10_007, ONE, 0)
    assert abs(normal.mean()) < 0.05
    assert abs(normal.std() - 1) < 0.05
    assert np.abs(normal).max() <= 3
    assert not np.array_equal(drawn[0], drawing.uniform(10_007, OTHER, 0, 0))


def test_curve_is_catmull_rom() -> None:
    control = drawing.uniform(2 * 3 * 5 * 3, OTHER, 0).reshape(2, 3, 5, 3)
    curve = drawing.smooth(control)
    np.testing.assert_array_equal(curve[:, :, ::3], control)
    matrix = 0.5 * np.array([[0, 2, 0, 0], [-1, 0, 1, 0], [2, -5, 4, -1], [-1, 3, -3, 1]])
    padded = np.concatenate([control[:, :, :1], control, control[:, :, -1:]], axis=2)
    for span in range(4):
        for step in range(3):
            weights = np.array([(step / 3) ** power for power in range(4)]) @ matrix
            expected = np.einsum("p,ispc->isc", weights, padded[:, :, span : span + 4])
            np.testing.assert_allclose(curve[:, :, 3 * span + step], expected, atol=1e-12)


def test_distance_is_to_the_nearest_segment_in_radii() -> None:
    path = drawing.uniform(2 * 3 * 5 * 3, OTHER, 1).reshape(2, 3, 5, 3) * 30 + 0.5
    found = drawing.distance(path)
    for item in range(2):
        for row, column in ((0, 0), (7, 29), (13, 11), (31, 2)):
            pixel = np.array([column + 0.5, row + 0.5])
            nearest = np.inf
            for stroke in path[item]:
                for a, b in pairwise(stroke):
                    places = a[:2] + np.linspace(0, 1, 5003)[:, None] * (b - a)[:2]
                    away = np.linalg.norm(places - pixel, axis=1).min()
                    nearest = min(nearest, away / ((a[2] + b[2]) / 2))
            assert found[item, row, column] == pytest.approx(nearest, rel=1e-3, abs=1e-3)


def test_clouds_blend_between_the_corners() -> None:
    field = drawing.clouds(4, ONE, 0, np.arange(3))
    corners = drawing.uniform(25, ONE, 0, np.arange(3)).reshape(3, 5, 5)
    for row, column in ((0, 0), (3, 17), (30, 9), (31, 31)):
        (y, v), (x, u) = divmod((row + 0.5) / 8, 1), divmod((column + 0.5) / 8, 1)
        u, v, y, x = 3 * u**2 - 2 * u**3, 3 * v**2 - 2 * v**3, int(y), int(x)
        top = (1 - u) * corners[:, y, x] + u * corners[:, y, x + 1]
        bottom = (1 - u) * corners[:, y + 1, x] + u * corners[:, y + 1, x + 1]
        np.testing.assert_allclose(field[:, row, column], (1 - v) * top + v * bottom)
