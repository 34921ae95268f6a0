"""TIM's head: the alternating solver against NumPy, the gradient one against autograd and torch's Adam."""

import math

import numpy as np
import pytest
import torch

from fewset.models.heads.tim import TimHead
from tests.helpers.embedded import distance
from tests.helpers.heads import (
    DIM,
    assert_equals_the_loop,
    inputs,
    lengths_of_one,
    softmax,
    with_and_without_mask,
)


@with_and_without_mask
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_the_alternating_solver_equals_the_loop(steps, mask):
    """The updates of the paper's proposition 1, centre by centre."""

    def naive(shots, queries):
        shots, queries = lengths_of_one(shots, queries)
        labelled = [(x, n) for n, each in enumerate(shots) for x in each]
        centres = [each.mean(axis=0) for each in shots]

        def p(x):
            return softmax([-8.0 / 2 * distance(x, centre) for centre in centres])

        for _ in range(steps):
            powers = np.array([p(q) ** 1.2 for q in queries])
            auxiliary = powers / powers.sum(axis=0) ** (2.0 / 3.0)
            auxiliary /= auxiliary.sum(axis=1, keepdims=True)
            label_weight, query_weight = 0.3 / 1.2, len(labelled) / len(queries)
            moved = []
            for n, centre in enumerate(centres):
                total, count = np.zeros(DIM), 0.0
                for x, label in labelled:
                    total = total + label_weight * ((label == n) * x + p(x)[n] * (centre - x))
                    count += label_weight * (label == n)
                for q, share in zip(queries, auxiliary, strict=True):
                    total = total + query_weight * (share[n] * q + p(q)[n] * (centre - q))
                    count += query_weight * share[n]
                moved.append(total / count)
            centres = moved
        return [[-8.0 / 2 * distance(q, centre) for centre in centres] for q in queries]

    head = TimHead(
        DIM, steps=steps, sharpness=8.0, label_weight=0.3, balance_weight=2.0, certainty_weight=0.2
    )
    assert_equals_the_loop(head, naive, mask)


@with_and_without_mask
@pytest.mark.parametrize("steps", [0, 1, 7])
def test_the_gradient_solver_equals_autograd_and_adam(steps, mask):
    def naive(shots, queries):
        shots, queries = lengths_of_one(shots, queries)
        centres = torch.tensor(np.array([each.mean(axis=0) for each in shots]), requires_grad=True)
        labelled = torch.from_numpy(np.concatenate(shots))
        labels = torch.tensor([n for n, each in enumerate(shots) for _ in each])
        rows = torch.from_numpy(queries)
        optimiser = torch.optim.Adam([centres], lr=0.01)

        def logits(x):
            return -8.0 / 2 * (x[:, None] - centres[None]).square().sum(-1)

        for _ in range(steps):
            p = logits(rows).softmax(-1)
            marginal = p.mean(0)
            loss = 0.3 * torch.nn.functional.cross_entropy(logits(labelled), labels)
            loss = loss + 2.0 * (marginal * marginal.log()).sum() - 0.2 * (p * p.log()).sum(-1).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        return logits(rows).detach().numpy()

    weights = {"label_weight": 0.3, "balance_weight": 2.0, "certainty_weight": 0.2}
    head = TimHead(DIM, "gradient", steps=steps, sharpness=8.0, rate=0.01, **weights)
    assert_equals_the_loop(head, naive, mask, tolerance=1e-7)


@pytest.mark.parametrize("solver", ["alternating", "gradient"])
def test_queries_become_sure_and_balanced(solver):
    """More so than by the prototypes alone, which is no step at all."""
    support, query = inputs(queries=31)

    def entropies(steps):
        shares = TimHead(DIM, solver, steps=steps, rate=0.01)(support, query).softmax(-1)
        marginal = shares.mean(1)
        entropy = -(shares * shares.log()).sum(-1).mean()
        return -(marginal * marginal.log()).sum(-1).mean() - 0.1 * entropy

    assert entropies(100) > entropies(0) + 0.01
    assert entropies(100) < math.log(5)
