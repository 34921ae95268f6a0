"""Semi-ProtoNet's head against NumPy: soft k-means, in which the queries take part."""

import numpy as np
import pytest

from fewset.models.heads.semi_prototype import SemiPrototypeHead
from tests.helpers.embedded import distance
from tests.helpers.heads import DIM, assert_equals_the_loop, with_and_without_mask


@with_and_without_mask
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_equals_the_loop(steps, mask):
    def naive(shots, queries):
        centres = [class_shots.mean(axis=0) for class_shots in shots]
        for _ in range(steps):
            shares = []
            for q in queries:
                weights = np.exp([-distance(q, centre) / 2.5 for centre in centres])
                shares.append(weights / weights.sum())
            refined = []
            for n, class_shots in enumerate(shots):
                total, count = np.zeros(DIM), 0.0
                for shot in class_shots:
                    total, count = total + shot, count + 1
                for q, share in zip(queries, shares, strict=True):
                    total, count = total + share[n] * q, count + share[n]
                refined.append(total / count)
            centres = refined
        return [[-distance(q, centre) / 2.5 for centre in centres] for q in queries]

    assert_equals_the_loop(SemiPrototypeHead(DIM, temperature=2.5, steps=steps), naive, mask)
