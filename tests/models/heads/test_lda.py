"""Linear discriminant analysis against NumPy, with the whole covariance inverted."""

import numpy as np
import pytest

from fewset.models.heads.lda import LdaHead
from tests.helpers.heads import DIM, WAY, assert_equals_the_loop, inputs, normal, with_and_without_mask


@with_and_without_mask
@pytest.mark.parametrize("shrinkage", [0.1, 1.0])
def test_equals_the_loop(shrinkage, mask):
    def naive(shots, queries):
        means = [each.mean(axis=0) for each in shots]
        middle = np.mean(means, axis=0)
        within, spread = np.zeros((DIM, DIM)), 0.0
        for class_shots, mean in zip(shots, means, strict=True):
            for x in class_shots:
                within += np.outer(x - mean, x - mean) / (len(class_shots) * WAY)
                spread += (x - middle) @ (x - middle) / (len(class_shots) * WAY * DIM)
        inverse = np.linalg.inv((1 - shrinkage) * within + shrinkage * spread * np.eye(DIM))
        # Distances, less what all classes of a query have in common.
        far = [[-(q - mean) @ inverse @ (q - mean) / 2 for mean in means] for q in queries]
        common = [-(q - middle) @ inverse @ (q - middle) / 2 for q in queries]
        return (np.array(far) - np.array(common)[:, None]) / 2.5

    assert_equals_the_loop(LdaHead(DIM, shrinkage, temperature=2.5), naive, mask)


def test_does_not_depend_on_scale_and_place():
    support, query = inputs()
    shift = normal(DIM, seed=7)
    expected = LdaHead(DIM)(support, query)
    np.testing.assert_allclose(LdaHead(DIM)(3 * support + shift, 3 * query + shift), expected)
