"""PT-MAP's head against NumPy: the authors' steps, one task at a time, centres as rows of numbers."""

import numpy as np
import pytest
import torch

from fewset.models.heads.pt_map import PtMapHead, balanced_transport
from tests.helpers.embedded import distance
from tests.helpers.heads import (
    DIM,
    QUERIES,
    TASKS,
    WAY,
    assert_equals_the_loop,
    normal,
    with_and_without_mask,
)


def transported(cost: np.ndarray, sharpness: float) -> np.ndarray:
    """Sinkhorn's scalings of the plan itself, row by row and column by column."""
    plan = np.exp(-sharpness * cost)
    for _ in range(3000):
        for row in plan:
            row /= row.sum()
        for n in range(plan.shape[1]):
            plan[:, n] *= len(plan) / plan.shape[1] / plan[:, n].sum()
    return plan


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt(x @ x)


@with_and_without_mask
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_equals_the_loop(steps, mask):
    def powers(x):
        return unit(np.array([np.sign(value) * (abs(value) + 1e-6) ** 0.4 for value in x]))

    def naive(shots, queries):
        shots, queries = [[powers(x) for x in each] for each in shots], [powers(q) for q in queries]
        middle = np.mean([x for each in shots for x in each], axis=0)
        shots = [[unit(x - middle) for x in each] for each in shots]
        middle = np.mean(queries, axis=0)
        queries = [unit(q - middle) for q in queries]
        centres = [np.mean(each, axis=0) for each in shots]
        for step in range(steps + 1):
            cost = np.array([[distance(q, centre) for centre in centres] for q in queries])
            plan = transported(cost, 6.0)
            if step < steps:
                for n, each in enumerate(shots):
                    total = np.sum(each, axis=0) + sum(
                        p * q for p, q in zip(plan[:, n], queries, strict=True)
                    )
                    centres[n] = centres[n] + 0.3 * (total / (len(each) + plan[:, n].sum()) - centres[n])
        return np.log(plan)

    head = PtMapHead(DIM, power=0.4, sharpness=6.0, rate=0.3, steps=steps)
    assert_equals_the_loop(_Logarithms(head), naive, mask, tolerance=1e-5)


class _Logarithms:
    """The head's logits as logarithms of shares: rows of the plan sum to 1."""

    def __init__(self, head: PtMapHead) -> None:
        self.head = head

    def __call__(self, *arguments):
        return self.head(*arguments).log_softmax(dim=-1)


def test_each_class_gets_as_many_queries():
    transport = balanced_transport(5 * normal(TASKS, WAY, QUERIES, seed=7)).softmax(1)
    expected = torch.full((TASKS, WAY), QUERIES / WAY, dtype=torch.float64)
    torch.testing.assert_close(transport.sum(-1), expected, rtol=2e-6, atol=0)


def test_a_task_stops_by_itself():
    """The scores of other tasks, even such as need many more steps, change no bit of a task."""
    scores = normal(3, WAY, QUERIES, seed=7)
    scores[1] *= 40
    together = balanced_transport(scores)
    for task in range(3):
        assert torch.equal(balanced_transport(scores[task : task + 1])[0], together[task])
