"""Recall against NumPy, and what it promises: sets of one, queries one by one, its beginning."""

import numpy as np
import pytest
import torch

from fewset.models.adapters.recall import Recall

SETS, SIZE, QUERIES, DIM, SLOTS = 3, 5, 7, 11, 13


def trained() -> Recall:
    adapter = Recall(DIM, slots=SLOTS).double().eval()
    generator = torch.Generator().manual_seed(0)
    for parameter in (adapter.origin, adapter.map.weight, adapter.memory):
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return adapter


def rows(size: int, seed: int) -> torch.Tensor:
    return torch.randn(SETS, size, DIM, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def recalled(adapter: Recall, row: np.ndarray) -> np.ndarray:
    memory, row = adapter.memory.detach().numpy(), row - adapter.origin.detach().numpy()
    alike = [row @ slot / np.linalg.norm(row) / np.linalg.norm(slot) for slot in memory]
    weights = np.exp(adapter.sharpness.item() * np.array(alike))
    return sum(weight * slot for weight, slot in zip(weights / weights.sum(), memory, strict=True))


def naive(adapter: Recall, items: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One set at a time, as the formula has it."""
    origin, weight = adapter.origin.detach().numpy(), adapter.map.weight.detach().numpy()
    own = np.stack([recalled(adapter, item) for item in items])
    common = adapter.common.item() * own.mean(axis=0) if len(items) > 1 else 0.0
    turn = (np.eye(DIM) + weight).T
    return (items - origin + adapter.denoise.item() * own - common) @ turn, (queries - origin - common) @ turn


@pytest.mark.parametrize("size", [SIZE, 1])  # a set of one has nothing in common with others
def test_is_the_formula_for_items_and_queries(size: int) -> None:
    adapter, items, queries = trained(), rows(size, 1), rows(QUERIES, 2)
    expected = [naive(adapter, *pair) for pair in zip(items.numpy(), queries.numpy(), strict=True)]
    np.testing.assert_allclose(adapter(items).detach(), [one[0] for one in expected])
    np.testing.assert_allclose(adapter.adapt_queries(items, queries).detach(), [one[1] for one in expected])


def test_begins_with_the_classes_of_the_train_split() -> None:
    adapter, labels = Recall(DIM, slots=SLOTS).double(), torch.arange(SLOTS).repeat(4)
    features = rows(4 * SLOTS, 7)[0]
    adapter.fit(features, labels)
    torch.testing.assert_close(adapter.origin, features.mean(dim=0))
    expected = features.view(4, SLOTS, DIM).mean(dim=0) - features.mean(dim=0)
    torch.testing.assert_close(adapter.memory, expected)
