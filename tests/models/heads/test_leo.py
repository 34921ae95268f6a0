"""Latent optimisation against NumPy, pair by pair, with gradients by numerical differentiation."""

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime
from scipy.special import log_softmax

from fewset.models.heads.leo import LeoHead
from tests.helpers.heads import DIM, TASKS, WAY, inputs, with_and_without_mask


@with_and_without_mask
@pytest.mark.parametrize("length", [1.0, 1.7])
def test_equals_the_loop(length, mask):
    torch.manual_seed(3)
    options = {"latent": 3, "hidden": 11, "steps": 2, "tuning_steps": 2, "tuning_rate": 0.4, "length": length}
    head = LeoHead(DIM, **options).double().eval()
    matrix = {name: value.detach().numpy() for name, value in head.named_parameters()}
    support, query = inputs()
    with torch.no_grad():
        found = head(support, query, mask).numpy()

    def relation(x, other):
        a, b = (matrix["encoder.weight"] @ each for each in (x, other))
        hidden = np.maximum(matrix["own.weight"] @ a + matrix["other.weight"] @ b, 0)
        return matrix["code.weight"] @ np.maximum(matrix["relation.1.weight"] @ hidden, 0)

    for task in range(TASKS):
        kept = np.ones((WAY, 3), dtype=bool) if mask is None else mask[task].numpy()
        shots = [[length * x / np.sqrt(x @ x) for x in support[task, n].numpy()[kept[n]]] for n in range(WAY)]
        codes = []
        for own in shots:
            met = [[np.mean([relation(x, y) for y in others], axis=0) for others in shots] for x in own]
            codes.append(np.mean(met, axis=(0, 1)))
        codes = np.array(codes)

        def loss(weights, shots=shots):
            lost = [-log_softmax(weights.reshape(WAY, DIM) @ x)[n] for n in range(WAY) for x in shots[n]]
            return np.mean(lost)

        def decoded(codes):
            return codes.reshape(WAY, -1) @ matrix["decoder.weight"].T

        for _ in range(2):
            slope = approx_fprime(codes.ravel(), lambda z: loss(decoded(z)), 1e-6)
            codes = codes - slope.reshape(codes.shape)
        weights = decoded(codes)
        for _ in range(2):
            weights = weights - 0.4 * approx_fprime(weights.ravel(), loss, 1e-6).reshape(weights.shape)
        queries = query[task].numpy()
        expected = length * queries / np.linalg.norm(queries, axis=1, keepdims=True) @ weights.T
        np.testing.assert_allclose(found[task], expected, atol=1e-5)
