"""BD-CSPN's head against NumPy, one row at a time."""

import math

import numpy as np
import pytest

from fewset.models.heads.bd_cspn import BdCspnHead
from tests.helpers.heads import (
    DIM,
    QUERIES,
    assert_equals_the_loop,
    cosine,
    lengths_of_one,
    with_and_without_mask,
)


@with_and_without_mask
@pytest.mark.parametrize("confident", [0, 1, 2, QUERIES + 5])
def test_equals_the_loop(confident, mask):
    def naive(shots, queries):
        shots, queries = lengths_of_one(shots, queries)
        shift = np.concatenate(shots).mean(axis=0) - queries.mean(axis=0)
        queries = [q + shift for q in queries]
        centres = [each.mean(axis=0) for each in shots]
        nearest = [max(range(len(centres)), key=lambda n: cosine(q, centres[n])) for q in queries]
        rectified = []
        for n, centre in enumerate(centres):
            own = [q for q, best in zip(queries, nearest, strict=True) if best == n]
            own = sorted(own, key=lambda q: -cosine(q, centre))[:confident]
            members = [*shots[n], *own]
            weights = [math.exp(4.0 * cosine(x, centre)) for x in members]
            total = sum(w * x for w, x in zip(weights, members, strict=True))
            rectified.append(total / sum(weights))
        return [[4.0 * cosine(q, centre) for centre in rectified] for q in queries]

    assert_equals_the_loop(BdCspnHead(DIM, scale=4.0, confident=confident), naive, mask)
