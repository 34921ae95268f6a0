"""Linear forms against loops, and which heads have one."""

import pytest
import torch
from torch import Tensor

from fewset.models.heads.prototype import PrototypeHead
from fewset.models.linear_form import LinearForm, linear_form_of, nearest, with_intercept, without_offset
from tests.helpers.embedded import model_with
from tests.helpers.heads import DIM, QUERIES, TASKS, WAY, inputs, normal


def test_scores_against_a_loop() -> None:
    form = LinearForm(normal(TASKS, WAY, DIM, seed=1), normal(TASKS, WAY, seed=2))
    query = normal(TASKS, QUERIES, DIM, seed=3)
    scores = form.scores(query)
    assert scores.shape == (TASKS, QUERIES, WAY)
    for task in range(TASKS):
        for place in range(QUERIES):
            for label in range(WAY):
                expected = form.weights[task, label] @ query[task, place] - form.offset[task, label]
                assert scores[task, place, label].item() == pytest.approx(float(expected))


def test_the_nearest_item_by_what_is_not_the_same_for_all() -> None:
    """-|q - p|² / 2 less the score is one number for all items of a query."""
    items, query = normal(TASKS, WAY, DIM, seed=1), normal(TASKS, QUERIES, DIM, seed=3)
    distances = (query.unsqueeze(2) - items.unsqueeze(1)).square().sum(-1)
    between = -distances / 2 - nearest(items).scores(query)
    torch.testing.assert_close(between, between[..., :1].expand_as(between))


@pytest.mark.parametrize("intercept", [True, False])
def test_the_weights_of_a_regression(intercept: bool) -> None:
    weights, query = normal(TASKS, DIM + intercept, WAY, seed=1), normal(TASKS, QUERIES, DIM, seed=3)
    rows = torch.cat([query, torch.ones(TASKS, QUERIES, int(intercept), dtype=torch.float64)], dim=-1)
    torch.testing.assert_close(with_intercept(weights, intercept).scores(query), rows @ weights)


class Opposite(PrototypeHead):
    """Inherits the form, and decides otherwise."""

    def forward(self, support: Tensor, query: Tensor, mask: Tensor | None = None) -> Tensor:
        return -super().forward(support, query, mask)


class OppositeForm(Opposite):
    def linear_form(self, support: Tensor, mask: Tensor | None = None) -> LinearForm:
        return LinearForm(*(-each for each in super().linear_form(support, mask)))


def test_a_head_that_decides_otherwise_than_the_one_it_inherits_from_has_no_form_of_it() -> None:
    support, query = inputs()
    assert linear_form_of(PrototypeHead(DIM)) is not None
    assert linear_form_of(Opposite(DIM)) is None
    assert linear_form_of(torch.nn.Identity()) is None
    form = linear_form_of(OppositeForm(DIM))
    assert form is not None
    assert torch.equal(form(support).scores(query).argmax(-1), Opposite(DIM)(support, query).argmax(-1))


def test_a_model_gives_the_form_of_its_head_for_the_adapted_support() -> None:
    model = model_with("attention").double()
    support, query = normal(TASKS, WAY, 3, 14, seed=1), normal(TASKS, QUERIES, 14, seed=2)
    with torch.no_grad():
        form = model.linear_form(support)
        assert form is not None
        assert torch.equal(form.scores(query).argsort(-1), model(support, query).argsort(-1))
        joined = model.linear_form(support, query)
        assert joined is not None
        model.transductive = True
        assert torch.equal(joined.scores(query).argsort(-1), model(support, query).argsort(-1))
    model.head = torch.nn.Identity()
    assert model.linear_form(support) is None


def test_a_product_alone_has_no_offset() -> None:
    weights, query = normal(TASKS, WAY, DIM, seed=1), normal(TASKS, QUERIES, DIM, seed=3)
    torch.testing.assert_close(without_offset(weights).scores(query), query @ weights.mT)
