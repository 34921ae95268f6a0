"""DeepSets against loops in NumPy."""

import numpy as np
import pytest
import torch

from fewset.models.adapters.deepsets import DeepSets, maximum_of_others

SETS, SIZE, CONTEXT, DIM = 2, 5, 3, 7


def build(**options) -> DeepSets:
    torch.manual_seed(11)
    return DeepSets(DIM, **options).double()


def rows(count: int, seed: int) -> torch.Tensor:
    return torch.randn(SETS, count, DIM, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network(layers, x: np.ndarray) -> np.ndarray:
    first, _, second = layers
    hidden = np.maximum(first.weight.detach().numpy() @ x + first.bias.detach().numpy(), 0)
    return second.weight.detach().numpy() @ hidden + second.bias.detach().numpy()


def naive(adapter: DeepSets, items: np.ndarray, context: np.ndarray, pool) -> np.ndarray:
    adapted = np.empty_like(items)
    for i, item in enumerate(items):
        others = [network(adapter.h, other) for j, other in enumerate(items) if j != i]
        others += [network(adapter.h, other) for other in context]
        pooled = pool(others) if others else np.zeros(DIM)
        adapted[i] = item + network(adapter.g, np.concatenate([item, pooled]))
    return adapted


@pytest.mark.parametrize("size", [1, 2, SIZE])
@pytest.mark.parametrize("context_size", [0, 1, CONTEXT])
@pytest.mark.parametrize(
    ("options", "pool"),
    [
        ({}, lambda others: np.max(others, axis=0)),
        ({"pool": "sum"}, lambda others: np.sum(others, axis=0)),
    ],
    ids=["max", "sum"],
)
def test_equals_the_loop(options, pool, size, context_size):
    adapter, items, context = build(**options), rows(size, 1), rows(context_size, 2)
    adapted = adapter(items, context).detach().numpy()
    for one in range(SETS):
        expected = naive(adapter, items[one].numpy(), context[one].numpy(), pool)
        np.testing.assert_allclose(adapted[one], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2, SIZE])
def test_as_published_equals_the_authors_arithmetic(size):
    """A 0/1 mask multiplies the embeddings, the maximum is over all rows of the product, then h."""
    adapter, items = build(as_published=True), rows(size, 1) - 0.5
    adapted = adapter(items).detach().numpy()
    mask = 1 - np.eye(size)
    for one in range(SETS):
        for i in range(size):
            masked = np.stack([items[one, j].numpy() * mask[j, i] for j in range(size)])
            pooled = network(adapter.h, masked.max(axis=0))
            item = items[one, i].numpy()
            expected = item + network(adapter.g, np.concatenate([item, pooled]))
            np.testing.assert_allclose(adapted[one, i], expected, rtol=1e-10, atol=1e-12)


def test_the_maximum_of_negative_numbers_is_negative():
    others = maximum_of_others(torch.tensor([[[-3.0], [-1.0], [-2.0]]]), 3)
    assert others.flatten().tolist() == [-1.0, -2.0, -1.0]
    of_equal = maximum_of_others(torch.tensor([[[5.0], [5.0], [1.0]]]), 2)
    assert of_equal.flatten().tolist() == [5.0, 5.0]
