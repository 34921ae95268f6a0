"""Weighing against a loop in NumPy, and what it is for."""

import numpy as np
import pytest
import torch

from fewset.models.adapters.weighing import Weighing

SETS, SIZE, CONTEXT, QUERIES, DIM = 2, 5, 3, 11, 7


def build() -> Weighing:
    torch.manual_seed(11)
    return Weighing(DIM).double()


def rows(count: int, seed: int) -> torch.Tensor:
    return torch.randn(SETS, count, DIM, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def naive(adapter: Weighing, given: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    mapping, log_weights = adapter.map.weight.detach().numpy(), adapter.log_weights.weight.detach().numpy()
    z = np.stack([row + mapping @ row for row in given])
    mean = z.mean(axis=0)
    spread = ((z - mean) ** 2).mean(axis=0)
    share = spread / spread.mean() if spread.any() else np.ones(DIM)
    weights = np.exp(log_weights @ np.log((share + 0.1) / 1.1))
    return np.stack([mean + weights * (row + mapping @ row - mean) for row in wanted])


@pytest.mark.parametrize("size", [1, 2, SIZE])
@pytest.mark.parametrize("context_size", [0, CONTEXT])
def test_items_equal_the_loop(size: int, context_size: int) -> None:
    adapter, items, context = build(), rows(size, 1), rows(context_size, 2)
    adapted = adapter(items, context).detach().numpy()
    for one in range(SETS):
        given = np.concatenate([items[one], context[one]])
        expected = naive(adapter, given, items[one].numpy())
        np.testing.assert_allclose(adapted[one], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [1, SIZE])
def test_queries_equal_the_loop_and_never_see_each_other(size: int) -> None:
    adapter, items, queries = build(), rows(size, 1), rows(QUERIES, 3)
    adapted = adapter.adapt_queries(items, queries)
    for one in range(SETS):
        expected = naive(adapter, items[one].numpy(), queries[one].numpy())
        np.testing.assert_allclose(adapted[one].detach().numpy(), expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(adapter.adapt_queries(items, queries[:, 2:3]), adapted[:, 2:3])


def test_what_the_items_share_counts_less() -> None:
    """With L the identity, distances are stretched where the set is spread and shrunk where it is not."""
    adapter = Weighing(2, zero_start=True)
    torch.nn.init.eye_(adapter.log_weights.weight)
    items = torch.tensor([[[0.0, 1.0], [2.0, 1.1], [4.0, 0.9]]])
    stretched = adapter(items).diff(dim=1) / items.diff(dim=1)
    assert (stretched[..., 0] > 1).all()
    assert (stretched[..., 1] < 1).all()
