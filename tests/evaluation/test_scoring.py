import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fewset.core.errors import UserError
from fewset.evaluation.scoring import evaluate
from fewset.models.adapters import ADAPTERS
from fewset.models.backbones.conv4 import Conv4
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.heads.relation import RelationHead
from fewset.models.maml import MamlConfig, MamlModel
from fewset.models.model import FewShotModel
from fewset.tasks.sampling import ClassIndex, sample_tasks
from fewset.tasks.scores import compare
from fewset.tasks.spec import TaskSpec
from tests.helpers.embedded import Nothing, model_with, table

SPEC = TaskSpec(way=3, shot=2, query=5, tasks=31, seed=2)


def test_protonet_against_a_loop() -> None:
    features, labels = table()
    score = evaluate(model_with("identity"), features, labels, SPEC)
    index = ClassIndex(labels)
    for number in range(SPEC.tasks):
        (rows,) = sample_tasks(index, SPEC, number, number + 1)
        centres = [features[one[:2]].numpy().mean(0) for one in rows]
        right = 0
        for way, one in enumerate(rows):
            for row in one[2:]:
                distances = [((features[row].numpy() - centre) ** 2).sum() for centre in centres]
                right += int(np.argmin(distances) == way)
        assert score.per_task[number] == pytest.approx(right / 15)
    assert 0.4 < score.mean < 0.95  # neither trivial nor chance


@pytest.mark.parametrize("adapter", sorted(ADAPTERS))
def test_results_do_not_depend_on_the_chunk(adapter: str) -> None:
    features, labels = table()
    scores = [
        evaluate(model_with(adapter), features, labels, SPEC, chunk=chunk)
        for chunk in (1, 2, 7, 31, 100, None)
    ]
    for score in scores[1:]:
        np.testing.assert_array_equal(score.per_task, scores[0].per_task)


def test_a_prefix_of_the_tasks_is_the_same_tasks() -> None:
    features, labels = table()
    few = TaskSpec(way=3, shot=2, query=5, tasks=17, seed=2)
    long, short = (evaluate(model_with("attention"), features, labels, spec) for spec in (SPEC, few))
    np.testing.assert_array_equal(long.per_task[:17], short.per_task)


@pytest.mark.parametrize("adapter", ["identity", "attention"])
@pytest.mark.parametrize("kind", [torch.float64, torch.float16, torch.bfloat16, torch.int32])
def test_any_type_of_numbers_is_scored_as_the_model_computes(adapter: str, kind: torch.dtype) -> None:
    features, labels = table()
    features = (10 * features).to(kind)
    model = model_with(adapter)
    expected = evaluate(model, features.float(), labels, SPEC)
    np.testing.assert_array_equal(evaluate(model, features, labels, SPEC).per_task, expected.per_task)
    double = evaluate(model.double(), features, labels, SPEC)
    np.testing.assert_allclose(double.per_task, expected.per_task, atol=0.07)  # a query that rounding turns


@pytest.mark.parametrize("value", [np.nan, -np.inf, 1e300, 1e19])
def test_features_that_are_not_finite_or_whose_distances_overflow_are_rejected(value: float) -> None:
    features, labels = table()
    wrong = features.double().numpy()
    wrong[17, 3] = wrong[23, 5] = value
    with pytest.raises(UserError, match=r"2 of 91 rows .* row 17"):
        evaluate(model_with("identity"), wrong, labels, SPEC)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda features, labels: (features, labels[:-1]), r"shape \(91, 14\) and labels of shape \(90,\)"),
        (lambda features, labels: (features, labels[:, None]), r"labels of shape \(91, 1\)"),
        (lambda features, labels: (features, labels.astype(float)), "type float64, expected .* integers"),
        (lambda features, labels: (features[0], labels), r"features of shape \(14,\)"),
        (lambda features, labels: (features[:, 1:], labels), "rows of dimension 14"),
    ],
)
def test_tables_that_do_not_fit_are_rejected(change: Callable[..., tuple], message: str) -> None:
    with pytest.raises(UserError, match=message):
        evaluate(model_with("attention"), *change(*table()), SPEC)


def test_pixels_are_scored_as_they_are() -> None:
    torch.manual_seed(0)
    model = MamlModel(Conv4(16, dim=7), MamlConfig(steps=1))
    pixels = torch.randint(256, (21, 3 * 16 * 16), dtype=torch.uint8)
    labels = np.arange(21) % 3
    spec = TaskSpec(way=3, shot=2, query=3, tasks=2)
    assert 0 <= evaluate(model, pixels, labels, spec).mean <= 1
    with pytest.raises(UserError, match="rows of dimension 768"):
        evaluate(model, pixels[:, 1:], labels, spec)


def on_maps() -> tuple[FewShotModel, torch.Tensor, np.ndarray]:
    """A model with a head on maps, and a table of maps in half precision."""
    torch.manual_seed(0)
    rows, labels = table()
    features = torch.randn(len(rows), 3, 2, 7, generator=torch.Generator().manual_seed(1)).half()
    return FewShotModel(Conv4(dim=7), ADAPTERS["identity"](7), RelationHead(7)), features, labels


def test_maps_are_scored_whatever_the_chunk_and_their_precision() -> None:
    model, features, labels = on_maps()
    scores = [evaluate(model, features, labels, SPEC, chunk=chunk) for chunk in (1, 7, None)]
    scores.append(evaluate(model, features.double(), labels, SPEC))
    for score in scores[1:]:
        np.testing.assert_array_equal(score.per_task, scores[0].per_task)
    assert scores[0].per_task.std() > 0


def test_maps_and_embeddings_are_not_taken_for_each_other() -> None:
    model, features, labels = on_maps()
    for wrong in (features[:, 0, 0], features[..., :5]):
        with pytest.raises(UserError, match="maps of dimension 7"):
            evaluate(model, wrong, labels, SPEC)
    with pytest.raises(UserError, match="rows of dimension 14"):
        evaluate(model_with("identity"), features, labels, SPEC)
    features[4, 1, 1, 2] = torch.inf
    with pytest.raises(UserError, match=r"not finite, .* row 4"):
        evaluate(model, features, labels, SPEC)


def test_logits_that_are_not_finite_are_rejected() -> None:
    class Overflowing(nn.Module):
        adapts = True

        def forward(self, items: torch.Tensor, context: None = None) -> torch.Tensor:  # noqa: ARG002
            return items * 1e38 * 1e38

    features, labels = table()
    model = FewShotModel(Nothing(), Overflowing(), PrototypeHead(features.shape[1]))
    with pytest.raises(UserError, match="logits of some tasks are not finite"):
        evaluate(model, features, labels, SPEC)


def test_a_score_knows_its_tasks() -> None:
    features, labels = table()
    model = model_with("identity")
    score = evaluate(model, features, labels, SPEC)
    assert compare(score, evaluate(model_with("attention"), features, labels, SPEC)).ci95 > 0
    for other in (
        evaluate(model, features, labels, replace(SPEC, seed=3)),
        evaluate(model, features, labels, replace(SPEC, shot=1)),
        evaluate(model, features, labels[::-1].copy(), SPEC),
    ):
        with pytest.raises(UserError, match="different"):
            compare(score, other)


def test_read_only_arrays_are_scored_without_a_warning() -> None:
    features, labels = table()
    arrays = features.numpy().copy(), labels.copy()
    for array in arrays:
        array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(model_with("identity"), *arrays, SPEC)


def test_labels_without_a_class_name_are_rejected() -> None:
    features, labels = table()
    names = [str(number) for number in range(labels.max() + 1)]
    for shifted in (labels - 1, labels + 1):
        with pytest.raises(UserError, match=rf"expected 0 to {labels.max()}"):
            evaluate(model_with("identity"), features, shifted, SPEC, class_names=names)
