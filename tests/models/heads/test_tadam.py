"""TADAM against NumPy, item by item and place by place."""

import numpy as np
import torch

from fewset.models.heads.tadam import TadamHead
from tests.helpers.heads import DIM, PLACES, assert_equals_the_loop, with_and_without_mask
from tests.helpers.maps import convolved, normalised, numbers, with_statistics


@with_and_without_mask
def test_equals_the_loop(mask):
    torch.manual_seed(3)
    head = with_statistics(TadamHead(DIM, hidden=5, scale=3.0, start=0.7))
    of = numbers(head)

    def condition(layer, which, task):
        name = f"conditioning.{layer}.networks.{which}"
        hidden = np.maximum(of[f"{name}.0.weight"] @ task + of[f"{name}.0.bias"], 0)
        made = of[f"{name}.2.weight"] @ hidden + of[f"{name}.2.bias"]
        return of[f"conditioning.{layer}.strengths"][which] * made

    def embed(image, task=None):
        made = image
        for layer in range(2):
            made = convolved(made, of[f"convolutions.{layer}.weight"])
            made = normalised(made, of, f"normalisations.{layer}")
            if task is not None:
                made = (1 + condition(layer, 0, task)) * made + condition(layer, 1, task)
            if layer == 0:
                made = np.maximum(made, 0)
        return np.maximum(image + made, 0).mean(axis=(0, 1))

    def naive(shots, queries):
        task = np.mean([np.mean([embed(x) for x in each], axis=0) for each in shots], axis=0)
        means = [np.mean([embed(x, task) for x in each], axis=0) for each in shots]
        embedded = [embed(q, task) for q in queries]
        return [[-3.0 * ((z - mean) ** 2).sum() / DIM for mean in means] for z in embedded]

    assert_equals_the_loop(head, naive, mask, places=PLACES)
