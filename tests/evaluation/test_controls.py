"""The controls tell a model in which the set is all from one in which it is nothing."""

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor, nn

from fewset.evaluation.controls import score_controls, set_adds
from fewset.evaluation.scoring import score_tasks
from fewset.models.adapters.attention import Attention
from fewset.models.adapters.norm import Norm
from fewset.models.backbones.features import FeatureInput
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.model import FewShotModel
from fewset.tasks.sampling import ClassIndex
from fewset.tasks.scores import ALONE, FOREIGN
from fewset.tasks.spec import TaskSpec

DIM, FAMILIES, MEMBERS, ITEMS = 32, 12, 5, 20
SPEC = TaskSpec(way=5, shot=1, query=10, tasks=200, related=4)


class Weigh(nn.Module):
    """Weighs each dimension by the spread of the set in it, of prototypes and queries alike."""

    def forward(self, items: Float[Tensor, "B S D"], _: Tensor | None = None) -> Float[Tensor, "B S D"]:
        return items * self._weights(items)

    def adapt_queries(self, items: Tensor, queries: Tensor) -> Tensor:
        return queries * self._weights(items)

    def _weights(self, items: Tensor) -> Tensor:
        spread = items.var(dim=1, keepdim=True, correction=0)
        return spread.square() if items.shape[1] > 1 else torch.ones_like(spread)


@pytest.fixture(scope="module")
def families() -> tuple[Tensor, ClassIndex]:
    """The classes of a family differ in one dimension of its own, and all others are noise.

    So which dimension counts is seen from the set alone.
    """
    generator = torch.Generator().manual_seed(0)
    rows = 5 * torch.randn(FAMILIES, MEMBERS, ITEMS, DIM, generator=generator)
    for family in range(FAMILIES):
        rows[family, :, :, family] = 10 * torch.arange(MEMBERS).unsqueeze(-1) + rows[family, :, :, family] / 5
    labels = np.repeat(np.arange(FAMILIES * MEMBERS), ITEMS)
    of = np.arange(FAMILIES * MEMBERS) // MEMBERS
    nearest = np.array([np.setdiff1d(np.flatnonzero(of == of[own]), [own]) for own in range(len(of))])
    return rows.reshape(-1, DIM), ClassIndex(labels, nearest=nearest)


def scores(adapter: nn.Module, families: tuple[Tensor, ClassIndex]) -> dict[str, float]:
    model = FewShotModel(FeatureInput(DIM), adapter, PrototypeHead(DIM)).eval()
    with torch.inference_mode():
        score = score_tasks(model, *families, SPEC)
        controls = score_controls(model, *families, SPEC)
    adds = set_adds(score, controls[ALONE])
    assert adds["mean"] == pytest.approx(score.mean - controls[ALONE].mean, abs=1e-6)
    return {"full": score.mean, **{name: each.mean for name, each in controls.items()}, "adds": adds["mean"]}


def test_where_the_set_is_all_it_adds_much(families: tuple[Tensor, ClassIndex]) -> None:
    found = scores(Weigh(), families)
    assert found["full"] > 0.9
    assert found["adds"] > 0.2
    assert found["full"] - found[FOREIGN] > 0.2


def test_where_the_set_is_nothing_it_adds_nothing(families: tuple[Tensor, ClassIndex]) -> None:
    found = scores(Norm(DIM), families)
    assert found["adds"] == 0
    assert found[FOREIGN] == pytest.approx(found["full"])


def test_attention_that_learned_nothing_of_the_set_adds_nothing(families: tuple[Tensor, ClassIndex]) -> None:
    assert scores(Attention(DIM, zero_start=True), families)["adds"] == 0


def test_another_task_depends_on_the_number_of_the_task_alone(families: tuple[Tensor, ClassIndex]) -> None:
    torch.manual_seed(3)
    model = FewShotModel(FeatureInput(DIM), Attention(DIM), PrototypeHead(DIM)).eval()
    with torch.inference_mode():
        whole = score_controls(model, *families, SPEC)
        fewer = score_controls(model, *families, TaskSpec(**{**vars(SPEC), "tasks": 50}))
    for name in (ALONE, FOREIGN):
        np.testing.assert_array_equal(whole[name].per_task[:50], fewer[name].per_task)
