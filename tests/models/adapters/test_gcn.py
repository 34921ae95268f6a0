"""The graph convolutional network against loops in NumPy."""

import math

import numpy as np
import pytest
import torch

from fewset.models.adapters.gcn import GCN, similarity_graph

SETS, SIZE, CONTEXT, DIM = 2, 5, 3, 7
LABELS = torch.tensor([[0, 1, 0, 2, 0], [1, 1, 3, 3, 0]])


def build(**options) -> GCN:
    torch.manual_seed(11)
    return GCN(DIM, **options).double().eval()


def rows(count: int, seed: int) -> torch.Tensor:
    return torch.randn(SETS, count, DIM, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def label_edges(labels: list[int]) -> np.ndarray:
    edges = np.zeros((len(labels), len(labels)))
    for i, a in enumerate(labels):
        for j, b in enumerate(labels):
            edges[i, j] = i != j and a == b
    return edges


def similarity_edges(nodes: np.ndarray) -> np.ndarray:
    size = len(nodes)
    distance = [[sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) for b in nodes] for a in nodes]
    pairs = [distance[i][j] for i in range(size) for j in range(i)]
    edges = np.zeros((size, size))
    for i in range(size):
        for j in range(size):
            if i != j:
                edges[i, j] = math.exp(-distance[i][j] / (sum(pairs) / len(pairs)))
    return edges


def naive(adapter: GCN, nodes: np.ndarray, edges: np.ndarray, last_relu: bool = True) -> np.ndarray:
    """Φ ← ReLU(S Φ W + b), twice, with S = D^-1/2 (A + I) D^-1/2."""
    with_loops = edges + np.eye(len(nodes))
    root = np.diag([1 / math.sqrt(row.sum()) for row in with_loops])
    spread = root @ with_loops @ root
    for layer, relu in ((adapter.first, True), (adapter.second, last_relu)):
        nodes = spread @ nodes @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
        nodes = np.maximum(nodes, 0) if relu else nodes
    return nodes


def test_label_graph_equals_the_loop():
    adapter, items = build(), rows(SIZE, 1)
    adapted = adapter(items, None, LABELS).detach().numpy()
    for one in range(SETS):
        expected = naive(adapter, items[one].numpy(), label_edges(LABELS[one].tolist()))
        np.testing.assert_allclose(adapted[one], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("context", [None, rows(CONTEXT, 2)], ids=["alone", "context"])
def test_similarity_graph_equals_the_loop(context):
    adapter, items = build(graph="similarity"), rows(SIZE, 1)
    adapted = adapter(items, context, LABELS).detach().numpy()
    for one in range(SETS):
        nodes = items[one].numpy() if context is None else np.concatenate([items[one], context[one]])
        expected = naive(adapter, nodes, similarity_edges(nodes))[:SIZE]
        np.testing.assert_allclose(adapted[one], expected, rtol=1e-10, atol=1e-12)


def test_as_published_equals_the_authors_arithmetic():
    """Edges join equal labels, rows are divided by their sums, x + (S relu(S x W₁ + b₁) W₂ + b₂)."""
    adapter, items = build(as_published=True), rows(SIZE, 1)
    w1, b1, w2, b2 = (
        values.detach().numpy()
        for layer in (adapter.first, adapter.second)
        for values in (layer.weight, layer.bias)
    )
    for labels in (LABELS, torch.arange(SIZE).expand(SETS, -1)):
        adapted = adapter(items, None, labels).detach().numpy()
        for one in range(SETS):
            adjacency = label_edges(labels[one].tolist()) + np.eye(SIZE)
            adjacency = adjacency / adjacency.sum(axis=1, keepdims=True)
            hidden = np.maximum(adjacency @ (items[one].numpy() @ w1.T) + b1, 0)
            expected = items[one].numpy() + adjacency @ (hidden @ w2.T) + b2
            np.testing.assert_allclose(adapted[one], expected, rtol=1e-10, atol=1e-12)


def test_one_item_a_class_is_a_network_on_each_item():
    adapter, items = build(), rows(SIZE, 1)
    own = torch.arange(SIZE).expand(SETS, -1)
    alone = torch.cat([adapter(items[:, i : i + 1]) for i in range(SIZE)], dim=1)
    torch.testing.assert_close(adapter(items, None, own), alone)
    torch.testing.assert_close(adapter(items), alone)
    assert not torch.allclose(adapter(items, None, LABELS), alone)


def test_context_matters_by_similarity_only():
    items, context = rows(SIZE, 1), rows(CONTEXT, 2)
    by_label, by_similarity = build(), build(graph="similarity")
    assert torch.equal(by_label(items, context, LABELS), by_label(items, None, LABELS))
    assert not torch.allclose(by_similarity(items, context), by_similarity(items))


def test_similarity_graph_ignores_the_scale_and_bears_equal_nodes():
    nodes = rows(SIZE, 1)
    torch.testing.assert_close(similarity_graph(1000 * nodes + 5), similarity_graph(nodes))
    equal = nodes[:, :1].expand(-1, SIZE, -1).float()
    graph = similarity_graph(equal)
    assert graph.isfinite().all()
    assert graph.diagonal(dim1=1, dim2=2).eq(1).all()


def test_residual_is_the_authors_arithmetic():
    items = rows(SIZE, 1)
    published, residual = build(as_published=True), build(residual=True)
    assert torch.equal(residual(items, None, LABELS), published(items, None, LABELS))
