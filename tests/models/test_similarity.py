"""Similarities against loops in NumPy, and what must hold of each registered one."""

import math

import numpy as np
import pytest
import torch

from fewset.models.similarity import (
    SIMILARITIES,
    cosine,
    negative_squared_euclidean,
    one_sided_cosine,
)

TASKS, QUERIES, ITEMS, DIM = 2, 5, 3, 7


def inputs(seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(TASKS, QUERIES, DIM, generator=generator, dtype=dtype)
    items = torch.randn(TASKS, ITEMS, DIM, generator=generator, dtype=dtype)
    return query, items


def naive(pair, query: torch.Tensor, items: torch.Tensor) -> np.ndarray:
    result = np.empty((TASKS, QUERIES, ITEMS))
    for task in range(TASKS):
        for m in range(QUERIES):
            for s in range(ITEMS):
                result[task, m, s] = pair(query[task, m].tolist(), items[task, s].tolist())
    return result


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize(
    ("function", "pair"),
    [
        (negative_squared_euclidean, lambda q, p: -sum((x - y) ** 2 for x, y in zip(q, p, strict=True))),
        (cosine, lambda q, p: dot(q, p) / math.sqrt(dot(q, q) * dot(p, p))),
        (one_sided_cosine, lambda q, p: dot(q, p) / math.sqrt(dot(p, p))),
    ],
)
def test_equals_the_loop(function, pair):
    query, items = inputs()
    np.testing.assert_allclose(function(query, items).numpy(), naive(pair, query, items), rtol=1e-12)


@pytest.mark.parametrize("function", SIMILARITIES.values(), ids=SIMILARITIES.keys())
def test_tasks_are_independent(function):
    query, items = inputs()
    expected = function(query, items)[0]
    query[1], items[1] = torch.nan, torch.nan
    torch.testing.assert_close(function(query, items)[0], expected)


def test_distances_far_from_the_origin_are_exact():
    """Embeddings share a large mean (they are averages of ReLUs); it must not eat the digits."""
    query, items = (values.float() + 100 for values in inputs())
    exact = naive(lambda q, p: -sum((x - y) ** 2 for x, y in zip(q, p, strict=True)), query, items)
    np.testing.assert_allclose(negative_squared_euclidean(query, items).numpy(), exact, rtol=1e-5)
