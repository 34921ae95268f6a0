"""Tasks for heads, and the comparison of a head with a loop over one task at a time."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

TASKS, WAY, SHOT, QUERIES, DIM = 2, 5, 3, 11, 7
PLACES = (3, 2)  # of a map: its height and width

Naive = Callable[[Sequence[np.ndarray], np.ndarray], object]
"""From the shots of each class and the queries of a task to its logits."""


def normal(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def inputs(
    way: int = WAY, shot: int = SHOT, queries: int = QUERIES, places: tuple[int, ...] = ()
) -> tuple[Tensor, Tensor]:
    """Support and queries; with `places` (`PLACES`) they are maps."""
    return normal(TASKS, way, shot, *places, DIM, seed=1), normal(TASKS, queries, *places, DIM, seed=2)


def uneven_mask() -> Tensor:
    mask = torch.ones(TASKS, WAY, SHOT, dtype=torch.bool)
    mask[0, 1, 0] = mask[1, 3, 1] = mask[1, 3, 2] = False
    return mask


with_and_without_mask = pytest.mark.parametrize("mask", [None, uneven_mask()], ids=["even", "uneven"])


def assert_equals_the_loop(
    head: Callable[..., Tensor],
    naive: Naive,
    mask: Tensor | None,
    tolerance: float = 1e-10,
    places: tuple[int, ...] = (),
) -> None:
    support, query = inputs(places=places)
    logits = head(support, query, mask).detach().numpy()
    kept = np.ones((TASKS, WAY, SHOT), dtype=bool) if mask is None else mask.numpy()
    for task in range(TASKS):
        shots = [support[task, n].numpy()[kept[task, n]] for n in range(WAY)]
        expected = naive(shots, query[task].numpy())
        np.testing.assert_allclose(logits[task], expected, rtol=tolerance, atol=tolerance / 100)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / math.sqrt((a @ a) * (b @ b)))


def softmax(values: Sequence[float] | np.ndarray) -> np.ndarray:
    weights = np.exp(np.asarray(values) - np.max(values))
    return weights / weights.sum()


def lengths_of_one(shots: Sequence[np.ndarray], queries: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """The rows of a task, each divided by its length."""
    *shots, queries = (np.array([x / math.sqrt(x @ x) for x in each]) for each in (*shots, queries))
    return shots, queries
