"""TPN's head against NumPy, and its network that learns the graph's width."""

import math

import numpy as np
import pytest
import torch

from fewset.models.heads.tpn import TpnHead
from tests.helpers.graphs import spread_labels
from tests.helpers.heads import DIM, assert_equals_the_loop, with_and_without_mask


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
