"""Category traversal against NumPy, map by map and place by place."""

import numpy as np
import torch
from scipy.special import softmax

from fewset.models.heads.ctm import CtmHead
from tests.helpers.heads import DIM, PLACES, assert_equals_the_loop, with_and_without_mask
from tests.helpers.maps import convolved, normalised, numbers, with_statistics


@with_and_without_mask
def test_equals_the_loop(mask):
    torch.manual_seed(3)
    head = with_statistics(CtmHead(DIM, temperature=0.3))
    of = numbers(head)

    def block(name, image):
        return np.maximum(normalised(convolved(image, of[f"{name}.0.weight"]), of, f"{name}.1"), 0)

    def naive(shots, queries):
        concentrated = [np.mean([block("concentrator", x) for x in each], axis=0) for each in shots]
        both = np.concatenate([np.mean(concentrated, axis=0), np.var(concentrated, axis=0)], axis=-1)
        projected = normalised(convolved(both, of["projector.0.weight"]), of, "projector.1")
        weights = DIM * softmax(projected, axis=-1)
        means = [np.mean([block("reshaper", x) for x in each], axis=0) for each in shots]
        rows = []
        for q in queries:
            reshaped = block("reshaper", q)
            squares = [((weights * (reshaped - mean)) ** 2).sum() for mean in means]
            rows.append([-square / (PLACES[0] * PLACES[1]) / 0.3 for square in squares])
        return rows

    assert_equals_the_loop(head, naive, mask, places=PLACES)
