"""LaplacianShot's head against NumPy, one query at a time."""

import math

import numpy as np
import pytest

from fewset.models.heads.laplacian_shot import LaplacianShotHead
from tests.helpers.embedded import distance
from tests.helpers.heads import (
    DIM,
    assert_equals_the_loop,
    cosine,
    lengths_of_one,
    softmax,
    with_and_without_mask,
)


def rectified(shots, queries):
    """As BD-CSPN with all queries: those moved, and the prototypes."""
    queries = queries + np.concatenate(shots).mean(axis=0) - queries.mean(axis=0)
    centres = [each.mean(axis=0) for each in shots]
    members = [list(each) for each in shots]
    for q in queries:
        members[int(np.argmax([cosine(q, centre) for centre in centres]))].append(q)
    better = []
    for own, centre in zip(members, centres, strict=True):
        weights = np.array([math.exp(10 * cosine(x, centre)) for x in own])
        better.append((weights[:, None] * np.array(own)).sum(axis=0) / weights.sum())
    return queries, better


@with_and_without_mask
@pytest.mark.parametrize(("neighbours", "steps", "rectify"), [(3, 4, True), (2, 0, False), (100, 3, False)])
def test_equals_the_loop(neighbours, steps, rectify, mask):
    def naive(shots, queries):
        shots, queries = lengths_of_one(shots, queries)
        centres = [each.mean(axis=0) for each in shots]
        if rectify:
            queries, centres = rectified(shots, queries)
        others = [sorted(range(len(queries)), key=lambda p: distance(q, queries[p])) for q in queries]
        unary = [[distance(q, centre) for centre in centres] for q in queries]
        inside = [[-each for each in row] for row in unary]
        for _ in range(steps):
            shares = [softmax(row) for row in inside]
            inside = [
                -np.array(unary[q])
                + 0.7 * sum(shares[p] for p in [p for p in others[q] if p != q][:neighbours])
                for q in range(len(queries))
            ]
        return inside

    head = LaplacianShotHead(DIM, smoothness=0.7, neighbours=neighbours, steps=steps, rectify=rectify)
    assert_equals_the_loop(head, naive, mask)
