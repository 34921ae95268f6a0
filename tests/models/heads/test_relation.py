"""The relation module against NumPy, pair by pair and place by place."""

import numpy as np
import torch

from fewset.models.heads.relation import RelationHead
from tests.helpers.heads import DIM, PLACES, assert_equals_the_loop, with_and_without_mask
from tests.helpers.maps import convolved, halved, normalised, numbers, with_statistics


@with_and_without_mask
def test_equals_the_loop(mask):
    torch.manual_seed(3)
    head = with_statistics(RelationHead(DIM, hidden=5))
    of = numbers(head)
    both = np.concatenate([of["of_class.weight"], of["of_query.weight"]], axis=1)

    def relation(mean, q):
        """One convolution of the channels of both, as in the paper."""
        pair = convolved(np.concatenate([mean, q], axis=-1), both)
        pair = halved(np.maximum(normalised(pair, of, "relation.0"), 0))
        pair = normalised(convolved(pair, of["relation.3.weight"]), of, "relation.4")
        pooled = halved(np.maximum(pair, 0)).mean(axis=(0, 1))
        hidden = np.maximum(of["relation.8.weight"] @ pooled + of["relation.8.bias"], 0)
        return (of["relation.10.weight"] @ hidden).item()

    def naive(shots, queries):
        return [[relation(each.mean(axis=0), q) for each in shots] for q in queries]

    assert_equals_the_loop(head, naive, mask, places=PLACES)
