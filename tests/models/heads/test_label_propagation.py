"""Label propagation against NumPy: a graph made node by node, and spread step by step."""

import pytest

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
