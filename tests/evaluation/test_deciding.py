"""The same accuracies to the bit with compiled loops and without, for whatever model and table."""

import sys

import numpy as np
import pytest
import torch

from fewset.compute import compiling
from fewset.evaluation import deciding
from fewset.evaluation.scoring import evaluate, load_loops
from fewset.models.heads import HEADS
from fewset.models.model import FewShotModel
from fewset.tasks.scores import Score
from fewset.tasks.spec import TaskSpec
from tests.helpers.embedded import DIM, Nothing, model_with, table

SPEC = TaskSpec(way=3, shot=1, query=5, tasks=301, seed=2)
LINEAR = sorted(name for name, head in HEADS.items() if hasattr(head, "linear_form"))


def scored(
    model: FewShotModel, features: torch.Tensor, labels: np.ndarray, spec: TaskSpec = SPEC, chunk: int = 50
) -> tuple[Score, Score]:
    """Without compiled loops and with them."""
    scores = []
    for least in (spec.tasks + 1, spec.tasks):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compiling, "_TASKS", least)
            scores.append(evaluate(model, features, labels, spec, chunk=chunk))
    return scores[0], scores[1]


@pytest.fixture
def left_to_torch(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tasks at a time torch was asked for scores of a linear form."""
    asked: list[int] = []
    exact = deciding.LinearForm.scores

    def noting(form: deciding.LinearForm, query: torch.Tensor) -> torch.Tensor:
        asked.append(len(query))
        return exact(form, query)

    monkeypatch.setattr(deciding.LinearForm, "scores", noting)
    return asked


@pytest.mark.parametrize("shot", [1, 3])
@pytest.mark.parametrize("name", LINEAR)
def test_every_head_with_a_linear_form_is_scored_alike(name: str, shot: int) -> None:
    torch.manual_seed(0)
    model = FewShotModel(Nothing(), torch.nn.Identity(), HEADS[name](DIM), "post").eval()
    model.adapter.forward = lambda items, _context: items
    plain, fast = scored(model, *table(), TaskSpec(way=3, shot=shot, query=5, tasks=301))
    np.testing.assert_array_equal(fast.per_task, plain.per_task)
    assert plain.per_task.std() > 0


def test_the_loop_asks_torch_for_no_scores(left_to_torch: list[int]) -> None:
    plain, fast = scored(model_with("attention"), *table())
    assert left_to_torch[:7] == [50] * 6 + [1]
    assert not left_to_torch[7:]
    np.testing.assert_array_equal(fast.per_task, plain.per_task)


def test_rows_that_are_alike() -> None:
    """Every row is there in several classes, so shots of two classes are often the same."""
    features, labels = table()
    features = features[torch.arange(len(features)) % 7]
    plain, fast = scored(model_with("identity"), features, labels)
    np.testing.assert_array_equal(fast.per_task, plain.per_task)


@pytest.mark.parametrize("unit", [1e-30, 1e-3, 1.0, 1e15])
def test_rows_of_every_size(unit: float) -> None:
    features, labels = table()
    plain, fast = scored(model_with("identity"), unit * features, labels)
    np.testing.assert_array_equal(fast.per_task, plain.per_task)


def test_rows_that_differ_by_rounding() -> None:
    """Whole numbers of a few units, and then a little beside them: ties and what is next to a tie."""
    features, labels = table()
    features = features.round()
    noise = 1e-7 * torch.randn(features.shape, generator=torch.Generator().manual_seed(1))
    for rows in (features, features * (1 + noise)):
        plain, fast = scored(model_with("identity"), rows, labels)
        np.testing.assert_array_equal(fast.per_task, plain.per_task)


def test_a_transductive_model_is_given_the_queries() -> None:
    model = model_with("attention")
    inductive = scored(model, *table())[0]
    model.transductive = True
    plain, fast = scored(model, *table())
    np.testing.assert_array_equal(fast.per_task, plain.per_task)
    assert not np.array_equal(plain.per_task, inductive.per_task)


@pytest.mark.parametrize("chunk", [1, 7, 301])
def test_whatever_the_chunk_and_the_threads(chunk: int) -> None:
    before, expected = torch.get_num_threads(), scored(model_with("identity"), *table())[0]
    torch.set_num_threads(2)
    try:
        plain, fast = scored(model_with("identity"), *table(), chunk=chunk)
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(plain.per_task, expected.per_task)
    np.testing.assert_array_equal(fast.per_task, expected.per_task)


def test_what_is_not_single_precision_is_left_to_torch(left_to_torch: list[int]) -> None:
    features, labels = table()
    scored(model_with("identity").double(), features.double(), labels)
    assert sum(left_to_torch) == 2 * SPEC.tasks
    torch.set_float32_matmul_precision("high")
    try:
        scored(model_with("identity"), features, labels)
    finally:
        torch.set_float32_matmul_precision("highest")
    assert sum(left_to_torch) == 4 * SPEC.tasks


def test_a_table_with_gaps_between_its_numbers() -> None:
    features, labels = table()
    wide = torch.stack([features, features + 1], dim=2)[..., 0]
    assert not wide.is_contiguous()
    plain, fast = scored(model_with("identity"), wide, labels)
    np.testing.assert_array_equal(fast.per_task, plain.per_task)


def test_loops_are_loaded_before_where_they_will_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"fewset.tasks.drawing_loop", "fewset.evaluation.counting_loop"}
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    load_loops(100)
    assert not names & set(sys.modules)
    load_loops(10_000)
    assert names <= set(sys.modules)
