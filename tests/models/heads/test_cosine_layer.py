"""The cosine layer against gradient descent in the space of the embeddings, one task at a time."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import log_softmax

from fewset.models.heads.cosine_layer import CosineLayerHead
from tests.helpers.heads import DIM, WAY, assert_equals_the_loop, inputs, with_and_without_mask


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


@with_and_without_mask
@pytest.mark.parametrize("steps", [0, 1, 7])
def test_equals_the_loop(steps, mask):
    def naive(shots, queries):
        weights = unit(np.stack([unit(each).mean(axis=0) for each in shots]))
        for _ in range(steps):
            slope = np.zeros((WAY, DIM))
            for label, class_shots in enumerate(shots):
                for x in unit(class_shots):
                    share = np.exp(weights @ x / 0.4) / np.exp(weights @ x / 0.4).sum()
                    for n in range(WAY):
                        slope[n] += (share[n] - (n == label)) * x / (0.4 * len(class_shots) * WAY)
            for n in range(WAY):
                slope[n] -= (slope[n] @ weights[n]) * weights[n]
            weights = unit(weights - 0.3 * slope)
        return unit(queries) @ weights.T / 0.4

    assert_equals_the_loop(CosineLayerHead(DIM, temperature=0.4, rate=0.3, steps=steps), naive, mask)


def test_the_first_step_goes_down_the_mean_cross_entropy():
    """By numerical differentiation of what a layer of any length would lose."""
    support, query = inputs()
    shots, queries = unit(support[0].numpy()), unit(query[0].numpy())
    start = unit(shots.mean(axis=1))

    def loss(flat):
        layer = unit(flat.reshape(WAY, DIM))
        return -np.mean([log_softmax(shots[n] @ layer.T / 0.4, axis=1)[:, n] for n in range(WAY)])

    slope = approx_fprime(start.ravel(), loss, 1e-7).reshape(WAY, DIM)
    expected = queries @ unit(start - 0.3 * slope).T / 0.4
    found = CosineLayerHead(DIM, temperature=0.4, rate=0.3, steps=1)(support, query)[0]
    np.testing.assert_allclose(found, expected, atol=1e-5)
