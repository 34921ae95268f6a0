"""The cosine layer against gradient descent in the space of the embeddings, one task at a time."""

import numpy as np
import pytest

from fewset.models.heads.cosine_layer import CosineLayerHead
from tests.helpers.heads import DIM, WAY, assert_equals_the_loop, with_and_without_mask


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
