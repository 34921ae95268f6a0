"""Labels spread over a graph of rows, node by node: what label propagation and TPN are compared with."""

import math
from collections.abc import Sequence

import numpy as np

from tests.helpers.embedded import distance


def spread_labels(
    shots: Sequence[Sequence[np.ndarray]], queries: Sequence[np.ndarray], neighbours: int, spread: float
) -> np.ndarray:
    """The queries' rows of (I - spread S)^-1 Y, by the series Y + spread S Y + (spread S)² Y + …"""
    nodes = [*(x for each in shots for x in each), *queries]
    weight = [[math.exp(-distance(a, b) / 2) for b in nodes] for a in nodes]
    joined = [set(sorted(range(len(nodes)), key=lambda j: -row[j])[:neighbours]) for row in weight]
    for i, row in enumerate(weight):
        for j in range(len(row)):
            if j not in joined[i] and i not in joined[j]:
                row[j] = 0.0
    sums = [sum(row) for row in weight]
    steps = np.array(
        [[w / math.sqrt(sums[i] * sums[j]) for j, w in enumerate(row)] for i, row in enumerate(weight)]
    )
    labels = np.zeros((len(nodes), len(shots)))
    labels[range(len(nodes) - len(queries)), [n for n, each in enumerate(shots) for _ in each]] = 1
    total, term = labels.copy(), labels
    while np.abs(term).max() > 1e-16:
        term = spread * steps @ term
        total += term
    return total[-len(queries) :]
