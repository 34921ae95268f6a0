"""Parameters predicted from activations, against NumPy."""

import numpy as np
import torch

from fewset.models.heads.pfa import PfaHead
from tests.helpers.heads import DIM, assert_equals_the_loop, with_and_without_mask


@with_and_without_mask
def test_equals_the_loop(mask):
    torch.manual_seed(3)
    head = PfaHead(DIM, hidden=11, temperature=0.4).double()
    first, second = ([each.detach().numpy() for each in head.predictor[i].parameters()] for i in (0, 2))

    def naive(shots, queries):
        weights = []
        for class_shots in shots:
            mean = np.mean([x / np.sqrt(x @ x) for x in class_shots], axis=0)
            hidden = np.maximum(first[0] @ mean + first[1], 0)
            weights.append(mean + second[0] @ hidden + second[1])
        return [[q @ w / np.sqrt(q @ q) / 0.4 for w in weights] for q in queries]

    assert_equals_the_loop(head, naive, mask)
