"""Label propagation against NumPy: a graph made node by node, and spread step by step."""

import pytest
import torch

from fewset.models.heads.label_propagation import LabelPropagationHead
from tests.helpers.graphs import spread_labels
from tests.helpers.heads import DIM, assert_equals_the_loop, lengths_of_one, with_and_without_mask


@with_and_without_mask
@pytest.mark.parametrize("neighbours", [2, 5, 100])
def test_equals_the_loop(neighbours, mask):
    def naive(shots, queries):
        shots, queries = lengths_of_one(shots, queries)
        scaled = [[x / 0.6 for x in each] for each in (*shots, queries)]
        return spread_labels(scaled[:-1], scaled[-1], neighbours, 0.8)

    head = LabelPropagationHead(DIM, width=0.6, neighbours=neighbours, spread=0.8)
    assert_equals_the_loop(head, naive, mask)


def test_labels_go_from_query_to_query():
    """Queries on an arc lead from the shot of class 1 to the last of them, which is nearer to that of 0."""
    angles = torch.deg2rad(torch.tensor([0.0, 180.0, *range(170, 60, -10)], dtype=torch.float64))
    rows = torch.stack([angles.cos(), angles.sin()], dim=1)
    support, query = rows[:2].view(1, 2, 1, 2), rows[2:].view(1, -1, 2)
    logits = LabelPropagationHead(2, width=0.2, neighbours=3)(support, query)
    assert (logits.argmax(-1) == 1).all()
