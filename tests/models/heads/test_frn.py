"""FRN against NumPy, class by class: each place of a query by least squares with a penalty."""

import numpy as np
import torch

from fewset.models.heads.frn import FrnHead
from tests.helpers.heads import DIM, PLACES, assert_equals_the_loop, with_and_without_mask

ONE_PLACE = (1, 1)  # so that a class has fewer rows than these have numbers


def reconstructed(row, pool, strength):
    """The nearest mixture of the pool's rows, with a penalty on its weights, from stacked least squares."""
    stacked = np.vstack([pool.T, np.sqrt(strength) * np.eye(len(pool))])
    weights = np.linalg.lstsq(stacked, np.concatenate([row, np.zeros(len(pool))]), rcond=None)[0]
    return weights @ pool


@with_and_without_mask
def test_equals_the_loop(mask):
    head = FrnHead(DIM, scale=1.7, log_strength=-0.4).double()
    torch.nn.init.constant_(head.log_rescaling, 0.3)

    def distance(q, shots):
        pool, rows = (each.reshape(-1, DIM) / np.sqrt(DIM) for each in (shots, q))
        strength = np.exp(-0.4) * len(pool) / DIM
        made = [np.exp(0.3) * reconstructed(row, pool, strength) for row in rows]
        return np.mean([((row - each) ** 2).sum() for row, each in zip(rows, made, strict=True)])

    def naive(shots, queries):
        return [[-1.7 * distance(q, each) for each in shots] for q in queries]

    for places in (PLACES, ONE_PLACE):
        assert_equals_the_loop(head, naive, mask, tolerance=1e-6, places=places)
