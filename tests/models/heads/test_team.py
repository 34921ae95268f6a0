"""TEAM's head against NumPy: the metric as a matrix, pair by pair."""

import numpy as np
import pytest

from fewset.models.heads.team import TeamHead
from tests.helpers.embedded import distance
from tests.helpers.heads import DIM, assert_equals_the_loop, softmax, with_and_without_mask


def pair_scatter(rows: list[np.ndarray], shares: np.ndarray) -> np.ndarray:
    """The scatter of pairs, each by the probability that it is one of one class."""
    sizes = shares.sum(axis=0)
    scatter = np.zeros((DIM, DIM))
    for x, own in zip(rows, shares, strict=True):
        for z, other in zip(rows, shares, strict=True):
            scatter += (own * other / sizes).sum() * np.outer(x - z, x - z) / 2
    return scatter / len(rows)


@with_and_without_mask
@pytest.mark.parametrize("strength", [0.0, 0.5, 3.0])
def test_equals_the_loop(strength, mask):
    def naive(shots, queries):
        centres = [each.mean(axis=0) for each in shots]
        shares = [np.eye(len(shots))[n] for n, each in enumerate(shots) for _ in each]
        shares += [softmax([-distance(q, centre) / 2.5 for centre in centres]) for q in queries]
        rows = [*np.concatenate(shots), *queries]
        scatter = pair_scatter(rows, np.array(shares))
        metric = np.linalg.inv(np.eye(DIM) + strength * scatter / (np.trace(scatter) / DIM))
        nearness = np.array([[-(q - c) @ metric @ (q - c) / 2.5 for c in centres] for q in queries])
        by_query = np.log([softmax(row) for row in nearness])
        by_class = np.log([softmax(column) for column in nearness.T]).T
        return by_query + by_class

    assert_equals_the_loop(TeamHead(DIM, strength=strength, temperature=2.5), naive, mask)
