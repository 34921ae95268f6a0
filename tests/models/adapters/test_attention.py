"""FEAT's attention against loops in NumPy."""

import math

import numpy as np
import pytest
import torch

from fewset.models.adapters.attention import Attention

SETS, SIZE, CONTEXT, DIM = 2, 5, 3, 7


def build(**options) -> Attention:
    torch.manual_seed(11)
    adapter = Attention(DIM, **options).double().eval()
    for layer in adapter.layers:  # fresh, the norm is trivial
        torch.nn.init.normal_(layer.norm.weight)
        torch.nn.init.normal_(layer.norm.bias)
    return adapter


def rows(count: int, seed: int) -> torch.Tensor:
    return torch.randn(SETS, count, DIM, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def naive_added(layer, heads: int, queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """One set: W_FC [head₁; head₂; …], each head as wide as the embedding."""
    weights = {name: value.detach().numpy() for name, value in layer.state_dict().items()}
    added = np.empty_like(queries)
    for i, item in enumerate(queries):
        joined = []
        for head in range(heads):
            part = slice(head * DIM, (head + 1) * DIM)
            w_q, w_k, w_v = (weights[f"to_{name}.weight"][part] for name in ("query", "key", "value"))
            scores = np.exp([(w_q @ item) @ (w_k @ other) / math.sqrt(DIM) for other in keys])
            share = scores / scores.sum()
            joined.append(sum(a * (w_v @ other) for a, other in zip(share, keys, strict=True)))
        added[i] = weights["to_output.weight"] @ np.concatenate(joined) + weights["to_output.bias"]
    return added


def naive_layer(layer, heads: int, queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """One set: LN(φ + what is added)."""
    total = queries + naive_added(layer, heads, queries, keys)
    normed = (total - total.mean(axis=1, keepdims=True)) / np.sqrt(total.var(axis=1, keepdims=True) + 1e-5)
    return normed * layer.norm.weight.detach().numpy() + layer.norm.bias.detach().numpy()


@pytest.mark.parametrize(("heads", "layers"), [(1, 1), (2, 1), (1, 3), (3, 2)])
def test_equals_the_loop(heads, layers):
    """Q = K = V = items and context in every layer; the items' rows come out."""
    adapter, items, context = build(heads=heads, layers=layers), rows(SIZE, 1), rows(CONTEXT, 2)
    for used in (None, context):
        adapted = adapter(items, used).detach().numpy()
        for one in range(SETS):
            expected = items[one].numpy() if used is None else np.concatenate([items[one], used[one]])
            for layer in adapter.layers:
                expected = naive_layer(layer, heads, expected, expected)
            np.testing.assert_allclose(adapted[one], expected[:SIZE], rtol=1e-10, atol=1e-12)


def test_the_authors_transductive_form_is_the_same_with_one_layer():
    """Theirs has the support alone as queries, and support and queries as keys and values."""
    adapter, items, context = build(), rows(SIZE, 1), rows(CONTEXT, 2)
    adapted = adapter(items, context).detach().numpy()
    for one in range(SETS):
        keys = np.concatenate([items[one], context[one]])
        expected = naive_layer(adapter.layers[0], 1, items[one].numpy(), keys)
        np.testing.assert_allclose(adapted[one], expected, rtol=1e-10, atol=1e-12)


def test_initial_weights_are_the_authors():
    torch.manual_seed(0)
    layer = Attention(211, heads=2).layers[0]
    for projection in (layer.to_query, layer.to_key, layer.to_value):
        assert projection.weight.std().item() == pytest.approx(math.sqrt(2 / (211 + 211)), rel=0.02)
    assert layer.to_output.weight.std().item() == pytest.approx(math.sqrt(2 / (2 * 211 + 211)), rel=0.02)


def test_a_zero_start_is_the_layer_norm_of_the_items_and_can_learn():
    adapter = Attention(DIM, dropout=0.0, attention_dropout=0.0, zero_start=True).double()
    items = rows(SIZE, 1)
    adapted = adapter(items, rows(CONTEXT, 2))
    torch.testing.assert_close(adapted, torch.nn.functional.layer_norm(items, (DIM,)))
    (adapted * rows(SIZE, 3)).sum().backward()
    assert adapter.layers[0].to_output.weight.grad.abs().min() > 0


@pytest.mark.parametrize("heads", [1, 2])
def test_a_mean_start_adds_the_mean_of_what_is_alike(heads):
    adapter = Attention(DIM, heads, mean_start=0.3).double().eval()
    items, context = rows(SIZE, 1), rows(CONTEXT, 2)
    adapted = adapter(items, context).detach()
    for one in range(SETS):
        joined = torch.cat([items[one], context[one]]).numpy()
        for item, found in zip(items[one].numpy(), adapted[one].numpy(), strict=True):
            weights = np.exp([0.3 * (item @ other) / math.sqrt(DIM) for other in joined])
            moved = item + sum(w * other for w, other in zip(weights, joined, strict=True)) / weights.sum()
            expected = (moved - moved.mean()) / np.sqrt(moved.var() + 1e-5)
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def test_residual_equals_the_loop():
    """φ + W_FC attention(LN(φ)): what the paper's layer adds before its norm, from normed rows."""
    adapter, items, context = build(residual=True), rows(SIZE, 1), rows(CONTEXT, 2)
    norm = adapter.layers[0].norm
    adapted = adapter(items, context).detach()
    for one in range(SETS):
        normed = norm(torch.cat([items[one], context[one]])).detach().numpy()
        added = naive_added(adapter.layers[0], 1, normed[:SIZE], normed)
        np.testing.assert_allclose(adapted[one], items[one].numpy() + added, rtol=1e-10, atol=1e-12)
