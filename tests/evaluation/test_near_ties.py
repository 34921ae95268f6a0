"""Near ties are decided in double precision: by torch and by the compiled loop alike, against a loop."""

from fractions import Fraction

import numpy as np
import pytest
import torch

from fewset.core.errors import UserError
from fewset.evaluation.near_ties import answers
from fewset.models.linear_form import LinearForm, nearest

ITEMS, TASKS, QUERIES = 211, 47, 13

Tasks = tuple[torch.Tensor, torch.Tensor, LinearForm]


def normal(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def random_tasks(way: int, dim: int) -> Tasks:
    """A table, the rows of queries, and what tells the classes apart."""
    queries = torch.randint(ITEMS, (TASKS, QUERIES), generator=torch.Generator().manual_seed(5))
    return normal(ITEMS, dim, seed=1), queries, nearest(normal(TASKS, way, dim, seed=2))


def by_torch(features: torch.Tensor, queries: torch.Tensor, form: LinearForm) -> torch.Tensor:
    return answers(form, features[queries], features.norm(dim=1)[queries])


def by_fractions(features: torch.Tensor, queries: torch.Tensor, form: LinearForm) -> torch.Tensor:
    """The answers without any rounding, the first of equal ones."""
    found = torch.empty(queries.shape, dtype=torch.int64)
    for task in range(len(queries)):
        weights = [[Fraction(number) for number in one] for one in form.weights[task].tolist()]
        offset = [Fraction(number) for number in form.offset[task].tolist()]
        for place, row in enumerate(features[queries[task]].tolist()):
            numbers = [Fraction(number) for number in row]
            scores = [
                sum(a * b for a, b in zip(one, numbers, strict=True)) - less
                for one, less in zip(weights, offset, strict=True)
            ]
            found[task, place] = scores.index(max(scores))
    return found


def by_loop(features: torch.Tensor, queries: torch.Tensor, form: LinearForm) -> torch.Tensor:
    """The answer of the compiled loop: the class that, if it were wanted, would be right."""
    from fewset.evaluation.counting_loop import count_right

    found = torch.full(queries.shape, -1)
    for place in range(queries.shape[1]):
        for label in range(form.weights.shape[1]):
            right = np.full(len(queries), -1, dtype=np.float32)
            one = queries[:, place : place + 1]
            given = (features, features.norm(dim=1), one, torch.full_like(one, label), *form)
            assert count_right(*(each.contiguous().numpy() for each in given), right)
            found[torch.from_numpy(right == 1), place] = label
    return found


deciders = pytest.mark.parametrize("decide", [by_torch, by_loop])


@deciders
@pytest.mark.parametrize(("way", "dim"), [(1, 3), (2, 1), (5, 7), (11, 8), (3, 67), (2, 640)])
def test_equals_what_is_not_rounded(decide, way: int, dim: int) -> None:
    tasks = random_tasks(way, dim)
    assert torch.equal(decide(*tasks), by_fractions(*tasks))


@deciders
@pytest.mark.parametrize("dim", [3, 67])
def test_of_two_classes_alike_the_first_is_the_answer(decide, dim: int) -> None:
    features, queries, form = random_tasks(5, dim)
    form.weights[:, 3], form.offset[:, 3] = form.weights[:, 1], form.offset[:, 1]
    form.weights[:, 4], form.offset[:, 4] = form.weights[:, 0], form.offset[:, 0]
    found = decide(features, queries, form)
    assert found.max() == 2
    assert torch.equal(found, by_fractions(features, queries, form))


@deciders
def test_of_classes_that_are_equal_in_another_order_the_first_is_the_answer(decide) -> None:
    """The sums have the same parts, but not in one order; in double precision they may differ."""
    features, queries, form = random_tasks(2, 67)
    features = features[:, :1].expand(-1, 67).contiguous()
    form.weights[:, 1], form.offset[:] = form.weights[:, 0].flip(-1), 0
    assert not decide(features, queries, form).any()


@deciders
@pytest.mark.parametrize("shift", [0.0, 3.0, 300.0])
def test_margins_of_every_size(decide, shift: float) -> None:
    """Offsets that put two classes as near to each other as they come, and a little apart."""
    features, queries, form = random_tasks(2, 67)
    features, queries = features + shift, queries[:, :1]
    gap = -form.scores(features[queries])[:, 0].diff(dim=-1).squeeze(-1)
    nudges = torch.logspace(-9, 0, TASKS) * (-1) ** torch.arange(TASKS)
    form.offset[:, 0] += gap + nudges * form.weights[:, 0].norm(dim=-1)
    expected = by_fractions(features, queries, form)
    assert 0.2 < expected.float().mean() < 0.8
    assert torch.equal(decide(features, queries, form), expected)


@deciders
def test_one_number_that_differs_by_its_last_place(decide) -> None:
    features, queries, form = random_tasks(2, 67)
    form.weights[:, 1], form.offset[:, 1] = form.weights[:, 0], form.offset[:, 0]
    form.weights[:, 1, 11] = torch.nextafter(form.weights[:, 0, 11], torch.tensor(torch.inf))
    found = decide(features, queries, form)
    assert 0.2 < found.float().mean() < 0.8
    assert torch.equal(found, by_fractions(features, queries, form))


@deciders
def test_numbers_so_small_that_single_precision_loses_them(decide) -> None:
    features, queries, form = random_tasks(5, 7)
    tasks = features * 1e-22, queries, LinearForm(form.weights * 1e-22, form.offset * 0)
    assert torch.equal(decide(*tasks), by_fractions(*tasks))


@pytest.mark.parametrize("number", [np.nan, np.inf, 3e38])
def test_what_is_not_finite_is_rejected(number: float) -> None:
    from fewset.evaluation.counting_loop import count_right

    features, queries, form = random_tasks(5, 7)
    form.weights[3, 2] = number
    with pytest.raises(UserError, match="are not finite"):
        by_torch(features, queries, form)
    right = np.empty(TASKS, dtype=np.float32)
    given = (features, features.norm(dim=1), queries, torch.zeros_like(queries), *form)
    assert not count_right(*(each.contiguous().numpy() for each in given), right)


def test_less_exact_products_are_taken_as_they_are() -> None:
    features, queries, form = random_tasks(5, 7)
    form.weights[:, 3], form.offset[:, 3] = form.weights[:, 1], form.offset[:, 1] - 1e-9
    torch.set_float32_matmul_precision("high")
    try:
        found = by_torch(features, queries, form)
    finally:
        torch.set_float32_matmul_precision("highest")
    assert torch.equal(found, form.scores(features[queries]).argmax(-1))
