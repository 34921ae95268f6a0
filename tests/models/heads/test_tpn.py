"""TPN's head against NumPy, and its network that learns the graph's width."""

import math

import numpy as np
import pytest
import torch

from fewset.models.heads.tpn import TpnHead
from tests.helpers.graphs import spread_labels
from tests.helpers.heads import DIM, assert_equals_the_loop, inputs, with_and_without_mask


@with_and_without_mask
@pytest.mark.parametrize("neighbours", [4, 100])
def test_equals_the_loop(neighbours, mask):
    torch.manual_seed(3)
    head = TpnHead(DIM, hidden=3, neighbours=neighbours, spread=0.8).double()
    inward, bias, outward, last = (parameter.detach().numpy() for parameter in head.parameters())

    def scaled(x):
        hidden = [max(0.0, float(row @ x) + b) for row, b in zip(inward, bias, strict=True)]
        width = math.log1p(math.exp(float(outward[0] @ np.array(hidden)) + last[0]))
        return x / width / math.sqrt(DIM)

    def naive(shots, queries):
        rows = [[scaled(x) for x in each] for each in (*shots, queries)]
        return spread_labels(rows[:-1], rows[-1], neighbours, 0.8)

    with torch.no_grad():
        assert_equals_the_loop(head, naive, mask)


def test_the_width_learns():
    """A few steps on one task of two classes lower its loss."""
    torch.manual_seed(5)
    support, query = inputs(way=2, shot=2, queries=6)
    query = query + support.mean(dim=2).repeat_interleave(3, dim=1)
    labels = torch.tensor([0, 0, 0, 1, 1, 1]).repeat(len(query))
    head = TpnHead(DIM).double()
    optimiser = torch.optim.Adam(head.parameters(), lr=0.01)
    losses = []
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(head(support, query).flatten(0, 1), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
