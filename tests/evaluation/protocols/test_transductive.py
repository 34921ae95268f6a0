from functools import partial

import numpy as np
import pytest
import torch

from fewset.evaluation.embedding import evaluating
from fewset.evaluation.protocols.transductive import (
    VARIANTS,
    Transduction,
    _adapt_together,
    _controls,
    informed_by_another_task,
    transductive_logits,
)
from fewset.evaluation.scoring import evaluate, score_tasks
from fewset.models.adapters import ADAPTERS
from fewset.models.model import FewShotModel
from fewset.tasks.sampling import ClassIndex
from fewset.tasks.scores import ALONE, FOREIGN, Score
from fewset.tasks.spec import TaskSpec
from tests.helpers.embedded import DIM, distance, model_with, table

SPEC = TaskSpec(way=3, shot=2, query=5, tasks=31, seed=2)
EQUIVARIANT = sorted(name for name, adapter in ADAPTERS.items() if getattr(adapter, "equivariant", True))
every_adapter = pytest.mark.parametrize("adapter", sorted(ADAPTERS))
every_method = pytest.mark.parametrize("method", VARIANTS)


def tasks(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(2, 3, 5, DIM, generator=generator, dtype=torch.float64),
        torch.randn(2, 7, DIM, generator=generator, dtype=torch.float64),
    )


def attention(model: FewShotModel, rows: np.ndarray) -> np.ndarray:
    """The Transformer of FEAT on one set, Q = K = V, item by item."""
    layer = model.adapter.layers[0]
    weights = {name: value.detach().numpy() for name, value in layer.named_parameters()}
    adapted = []
    for row in rows:
        scores = [
            (weights["to_query.weight"] @ row) @ (weights["to_key.weight"] @ other) / DIM**0.5
            for other in rows
        ]
        shares = np.exp(scores) / np.exp(scores).sum()
        value = sum(
            share * weights["to_value.weight"] @ other for share, other in zip(shares, rows, strict=True)
        )
        output = row + weights["to_output.weight"] @ value + weights["to_output.bias"]
        output = (output - output.mean()) / np.sqrt(output.var() + 1e-5)
        adapted.append(output * weights["norm.weight"] + weights["norm.bias"])
    return np.array(adapted)


@pytest.mark.parametrize("average", ["pre", "post"])
@every_method
def test_feat_against_a_loop(method: str, average: str) -> None:
    model = model_with("attention", average=average).double()
    how = VARIANTS[method]
    support, query = tasks()
    found = transductive_logits(model, support, query, how).detach().numpy()
    for task in range(2):
        shots, queries = support[task].numpy(), query[task].numpy()
        labelled = shots.mean(1, keepdims=True) if average == "pre" else shots
        rows = labelled.reshape(-1, DIM)
        adapted = attention(model, np.concatenate([rows, queries]) if how.joined else rows)
        labelled = adapted[: len(rows)].reshape(labelled.shape)
        if how.adapted_queries:
            queries = adapted[len(rows) :]
        labelled = [one.mean(0) for one in labelled]
        centres = labelled
        for _ in range(how.steps):
            shares = []
            for one in queries:
                likeness = np.exp([-distance(one, centre) / 3 for centre in centres])
                shares.append(likeness / likeness.sum())
            refined = []
            for way, centre in enumerate(labelled):
                total, count = 5 * centre, 5.0  # the class has five shots, averaged early or late
                for one, share in zip(queries, shares, strict=True):
                    total, count = total + share[way] * one, count + share[way]
                refined.append(total / count)
            centres = refined
        expected = [[-distance(one, centre) / 3 for centre in centres] for one in queries]
        np.testing.assert_allclose(found[task], expected, rtol=1e-8, atol=1e-8)


def score_together(
    model: FewShotModel, features: torch.Tensor, labels: np.ndarray, how: Transduction, **chunk: int | None
) -> Score:
    """The tasks that `evaluate` draws, the queries of each classified together."""
    with evaluating(model) as evaluated:
        classify = partial(transductive_logits, evaluated, how=how)
        return score_tasks(classify, features, ClassIndex(labels), SPEC, **chunk)


@pytest.mark.parametrize("average", ["pre", "post"])
@every_adapter
def test_no_queries_joined_is_inductive(adapter: str, average: str) -> None:
    model, (features, labels) = model_with(adapter, average=average), table()
    found = score_together(model, features, labels, Transduction(joined=False))
    np.testing.assert_array_equal(found.per_task, evaluate(model, features, labels, SPEC).per_task)
    support, query = (rows.float() for rows in tasks())
    with evaluating(model) as model:
        logits = transductive_logits(model, support, query, Transduction(joined=False))
        assert torch.equal(logits, model(support, query))


def test_without_an_adapter_double_dagger_is_semi_protonet() -> None:
    support, query = tasks()
    model = model_with("identity").double()
    semi = model_with("identity", "semi_prototype", "post", steps=1).double()
    for method in ("semi-protonet", "double-dagger", "double-dagger-published"):
        torch.testing.assert_close(
            transductive_logits(model, support, query, VARIANTS[method]), semi(support, query)
        )
    torch.testing.assert_close(
        transductive_logits(model, support, query, VARIANTS["dagger"]), model(support, query)
    )


@pytest.mark.parametrize("average", ["pre", "post"])
@every_adapter
def test_the_support_is_adapted_alike_with_and_beside_the_queries(adapter: str, average: str) -> None:
    """As one set with the queries, or with the queries for its context."""
    support, query = tasks()
    model = model_with(adapter, average=average).double()
    together, _ = _adapt_together(model, support, query)
    torch.testing.assert_close(together, model.adapt(support, query))


@every_method
@pytest.mark.parametrize("adapter", EQUIVARIANT)
def test_order_of_classes_and_queries_is_immaterial(adapter: str, method: str) -> None:
    support, query = tasks()
    model = model_with(adapter).double()
    classes, queries = [2, 0, 1], [3, 0, 6, 1, 5, 2, 4]
    found = transductive_logits(model, support[:, classes], query[:, queries], VARIANTS[method])
    expected = transductive_logits(model, support, query, VARIANTS[method])[:, queries][..., classes]
    torch.testing.assert_close(found, expected)


@every_method
@every_adapter
def test_one_task_never_influences_another(adapter: str, method: str) -> None:
    support, query = tasks()
    model = model_with(adapter).double()
    expected = transductive_logits(model, support, query, VARIANTS[method])[1]
    support[0], query[0] = torch.nan, torch.nan
    torch.testing.assert_close(transductive_logits(model, support, query, VARIANTS[method])[1], expected)


@pytest.mark.parametrize("method", ["dagger", "double-dagger-published", "semi-protonet"])
def test_queries_of_another_task_inform_in_place_of_the_own(method: str) -> None:
    """With the task itself as the other one, nothing changes."""
    support, query = tasks()
    model = model_with("attention").double()
    twice = (torch.cat([rows, rows], dim=1) for rows in (support, query))
    torch.testing.assert_close(
        informed_by_another_task(model, *twice, VARIANTS[method]),
        transductive_logits(model, support, query, VARIANTS[method]),
    )


def controls_of(adapter: str, method: str, **options: object) -> tuple[Score, dict[str, Score]]:
    features, labels = table(items=30)
    index, spec = ClassIndex(labels), TaskSpec(way=3, shot=1, query=20, tasks=200)
    with evaluating(model_with(adapter, **options)) as model:
        score = score_tasks(partial(transductive_logits, model, how=VARIANTS[method]), features, index, spec)
        return score, _controls(model, features, index, spec, method, None)


def test_refinement_gains_by_the_queries_of_its_own_task() -> None:
    score, controls = controls_of("identity", "semi-protonet")
    assert list(controls) == [FOREIGN]
    assert score.mean > controls[FOREIGN].mean + 0.02


def test_an_adapter_that_sees_no_set_has_the_same_score_in_the_controls() -> None:
    score, controls = controls_of("norm", "dagger")
    np.testing.assert_array_equal(controls[ALONE].per_task, score.per_task)
    np.testing.assert_array_equal(controls[FOREIGN].per_task, score.per_task)


def test_queries_that_are_adapted_themselves_have_the_control_of_sets_of_one_only() -> None:
    score, controls = controls_of("attention", "double-dagger")
    assert list(controls) == [ALONE]
    assert score.mean != controls[ALONE].mean
