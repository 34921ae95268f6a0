from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from fewset.core.errors import UserError
from fewset.data.images.store import open_set, set_path, write_store
from fewset.evaluation.controls import set_adds
from fewset.evaluation.embedding import evaluating
from fewset.evaluation.protocols import Job
from fewset.evaluation.protocols.generalised import (
    GeneralisedProtocol,
    Seen,
    generalised_margins,
    joint_prototypes,
)
from fewset.evaluation.scoring import evaluate
from fewset.evaluation.seen_unseen_calibration import Margins, calibrate, scores_at
from fewset.models.adapters import ADAPTERS
from fewset.models.model import FewShotModel
from fewset.tasks.hold_out import hold_out
from fewset.tasks.items import Items
from fewset.tasks.sampling import ClassIndex, sample_every_class, sample_tasks
from fewset.tasks.spec import TaskSpec
from tests.helpers.embedded import DIM, distance, model_with, table

SPEC = TaskSpec(way=3, shot=2, query=5, tasks=13, seed=2)
EQUIVARIANT = sorted(name for name, adapter in ADAPTERS.items() if getattr(adapter, "equivariant", True))


class Table(NamedTuple):
    features: torch.Tensor
    items: Items

    @property
    def labels(self) -> np.ndarray:
        return self.items.labels


def items_of(labels: np.ndarray) -> Items:
    return Items(np.arange(len(labels)), labels)


def seen_side(seed: int = 1) -> tuple[Table, Seen]:
    """7 seen classes of 17 items, 4 of which are held out, as if they were the numbers 10, 20, …"""
    features, labels = table(classes=7, items=17, seed=seed)
    train = Table(features, items_of(10 * labels + 10))
    parts = hold_out(train.labels)
    return train, Seen.of(*train, parts.train, np.sort(np.concatenate([parts.val, parts.test])))


def unseen_side(seed: int = 2) -> Table:
    features, labels = table(classes=5, items=11, seed=seed)
    return Table(features, items_of(labels))


def margins_of(
    model: FewShotModel, seen: Seen, unseen: Table, spec: TaskSpec = SPEC, **options: Any
) -> Margins:
    return generalised_margins(model, seen, unseen.features, unseen.items.index, spec, **options)


def naive_margins(
    model: FewShotModel, train: Table, seen: Seen, unseen: Table, adapt_seen: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Task by task, query by query, class by class."""
    parts = hold_out(train.labels)
    classes = sorted(set(train.labels))
    seen_prototypes = [
        np.mean([train.features[row].numpy() for row in parts.train if train.labels[row] == one], axis=0)
        for one in classes
    ]
    seen_rows = sample_every_class(seen.index, 3, SPEC.seed, 0, SPEC.tasks)
    seen_found, unseen_found = np.full((13, 7, 3), np.nan), np.full((13, 3, 5), np.nan)
    for task in range(SPEC.tasks):
        (rows,) = sample_tasks(ClassIndex(unseen.labels), SPEC, task, task + 1)
        own = [unseen.features[one[:2]].numpy().mean(0) for one in rows]
        if adapt_seen:
            everything = torch.from_numpy(np.array([seen_prototypes + own])).float()
            centres = model.adapter(everything)[0].numpy()
        else:
            centres = [*seen_prototypes, *model.adapter(torch.from_numpy(np.array([own])).float())[0].numpy()]
        for place, one in enumerate(seen_rows[task]):
            for number, row in enumerate(one):
                scores = [-distance(seen.features[row].numpy(), centre) / 3 for centre in centres]
                if np.argmax(scores[:7]) == place:
                    seen_found[task, place, number] = max(scores[:7]) - max(scores[7:])
        for place, one in enumerate(rows):
            for number, row in enumerate(one[2:]):
                scores = [-distance(unseen.features[row].numpy(), centre) / 3 for centre in centres]
                if np.argmax(scores[7:]) == place:
                    unseen_found[task, place, number] = max(scores[:7]) - max(scores[7:])
    return seen_found, unseen_found


@pytest.mark.parametrize("adapt_seen", [True, False])
@pytest.mark.parametrize("adapter", ["identity", "attention", "deepsets"])
def test_margins_against_a_loop(adapter: str, adapt_seen: bool) -> None:
    (train, seen), unseen, model = seen_side(), unseen_side(), model_with(adapter)
    found = margins_of(model, seen, unseen, SPEC, seen_query=3, adapt_seen=adapt_seen)
    with evaluating(model) as model:
        expected = naive_margins(model, train, seen, unseen, adapt_seen)
    np.testing.assert_allclose(found.seen, expected[0], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found.unseen, expected[1], rtol=1e-3, atol=1e-4)
    for part in (found.seen, found.unseen):
        assert 0.1 < np.isnan(part).mean() < 0.9  # some are right, some are wrong


@pytest.mark.parametrize(
    "adapter", [name for name in sorted(ADAPTERS) if not hasattr(ADAPTERS[name], "adapt_queries")]
)
def test_unseen_alone_is_the_standard_setting(adapter: str) -> None:
    """With its own classes adapted by themselves, UNSEEN is the few-shot accuracy on the same tasks."""
    (_, seen), unseen, model = seen_side(), unseen_side(), model_with(adapter)
    found = scores_at(margins_of(model, seen, unseen, SPEC, adapt_seen=False), 0.0)
    expected = evaluate(model, unseen.features, unseen.labels, SPEC)
    np.testing.assert_allclose(found["unseen"].per_task, expected.per_task, rtol=1e-6)


@pytest.mark.parametrize("constant", [0.0, -0.7, 1.3])
def test_the_constant_is_subtracted_from_the_seen_scores(constant: float) -> None:
    """COMBINED against the largest of all 10 scores, the seen ones less the constant; 0 is uncalibrated."""
    (_, seen), unseen, model = seen_side(), unseen_side(), model_with("attention")
    found = scores_at(margins_of(model, seen, unseen, SPEC, seen_query=3), constant)
    rows = torch.from_numpy(sample_tasks(ClassIndex(unseen.labels), SPEC, 0, SPEC.tasks))
    seen_rows = torch.from_numpy(sample_every_class(seen.index, 3, SPEC.seed, 0, SPEC.tasks))
    with evaluating(model) as model:
        centres = joint_prototypes(model, seen.prototypes, unseen.features[rows[..., :2]])
        answers = []
        for items in (seen.features[seen_rows], unseen.features[rows[..., 2:]]):
            scores = model.head(centres.unsqueeze(2), items.flatten(1, 2))
            scores[..., :7] -= constant
            answers.append(scores.argmax(-1).view(items.shape[:3]))
    right = [
        (answer == torch.arange(first, last)[:, None]).float().mean(2)
        for answer, first, last in ((answers[0], 0, 7), (answers[1], 7, 10))
    ]
    np.testing.assert_allclose(found["combined"].per_task, torch.cat(right, dim=1).mean(1).numpy(), rtol=1e-6)
    np.testing.assert_allclose(found["seen_among_all"].per_task, right[0].mean(1).numpy(), rtol=1e-6)
    np.testing.assert_allclose(found["unseen_among_all"].per_task, right[1].mean(1).numpy(), rtol=1e-6)


def test_after_averaging_the_set_holds_every_shot() -> None:
    model = model_with("attention", average="post")
    seen, support = torch.randn(7, DIM), torch.randn(2, 3, 5, DIM)
    found = joint_prototypes(model, seen, support)
    for task in range(2):
        adapted = model.adapter(torch.cat([seen, support[task].reshape(15, DIM)])[None])[0]
        expected = torch.cat([adapted[:7], adapted[7:].view(3, 5, DIM).mean(1)])
        torch.testing.assert_close(found[task], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("average", ["pre", "post"])
@pytest.mark.parametrize("adapt_seen", [True, False])
@pytest.mark.parametrize("adapter", EQUIVARIANT)
def test_order_of_classes_is_immaterial(adapter: str, adapt_seen: bool, average: str) -> None:
    model = model_with(adapter, average=average)
    seen, support = torch.randn(7, DIM), torch.randn(2, 3, 5, DIM)
    order, own = [3, 0, 6, 1, 5, 2, 4], [2, 0, 1]
    found = joint_prototypes(model, seen[order], support[:, own], adapt_seen)
    expected = joint_prototypes(model, seen, support, adapt_seen)[:, order + [7 + one for one in own]]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("adapter", sorted(ADAPTERS))
def test_one_task_never_influences_another(adapter: str) -> None:
    model = model_with(adapter)
    seen, support = torch.randn(7, DIM), torch.randn(2, 3, 5, DIM)
    expected = joint_prototypes(model, seen, support)[1]
    support[0] = torch.nan
    torch.testing.assert_close(joint_prototypes(model, seen, support)[1], expected)


@pytest.mark.parametrize("adapter", ["identity", "attention"])
def test_results_do_not_depend_on_the_chunk(adapter: str) -> None:
    (_, seen), unseen, model = seen_side(), unseen_side(), model_with(adapter)
    first, *others = (margins_of(model, seen, unseen, SPEC, chunk=chunk) for chunk in (1, 2, 5, None))
    constant = calibrate(first)
    for margins in others:
        assert calibrate(margins) == pytest.approx(constant, abs=1e-5)
        for name in ("seen", "unseen", "combined", "harmonic"):
            scores = [scores_at(one, constant)[name].per_task for one in (first, margins)]
            np.testing.assert_array_equal(*scores)


def test_by_default_seen_queries_are_as_many_as_there_are() -> None:
    (_, seen), unseen, model = seen_side(), unseen_side(), model_with("identity")
    assert margins_of(model, seen, unseen, SPEC).seen.shape == (13, 7, 4)
    few = TaskSpec(way=3, shot=2, query=3, tasks=1)
    assert margins_of(model, seen, unseen, few).seen.shape == (1, 7, 3)
    with pytest.raises(UserError, match="class '10' has 4 items"):
        margins_of(model, seen, unseen, SPEC, seen_query=5)


def test_the_whole_evaluation_is_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = ((7, 17, 1), (5, 11, 2), (5, 11, 3))  # classes, items of each and seed of train, val and test
    features, labels = (list(parts) for parts in zip(*(table(*size) for size in sizes), strict=True))
    labels = [own + first for own, first in zip(labels, (0, 7, 12), strict=True)]
    with write_store(
        set_path("tiny"),
        size=3,
        labels=np.concatenate(labels),
        class_names=[f"class{label}" for label in range(17)],
        splits=np.repeat([0, 1, 2], [len(own) for own in labels]),
        source="made by a test",
    ):
        pass
    whole = torch.cat(features)
    monkeypatch.setattr(Job, "embed", lambda _, items: whole[torch.from_numpy(items.rows)])
    job = Job(model_with("attention"), open_set("tiny"), "test", None, SPEC, hold_out=0.25)
    protocol = GeneralisedProtocol(validation_tasks=7)
    found = protocol.evaluate(job, (job.items("val"), job.items("test")))

    train, val, test = (Table(own, items_of(of)) for own, of in zip(features, labels, strict=True))
    parts, model = hold_out(train.labels), job.embedding_model
    on_val = margins_of(model, Seen.of(*train, parts.train, parts.val), val, TaskSpec(3, 2, 5, 7, SPEC.seed))
    on_test = margins_of(model, Seen.of(*train, parts.train, parts.test), test, SPEC)
    constant = calibrate(on_val)
    assert found.fields["constant"] == constant
    for name, at in (("combined", constant), ("uncalibrated_combined", 0.0)):
        np.testing.assert_array_equal(
            found.scores[name].per_task, scores_at(on_test, at)["combined"].per_task
        )
    assert 0 < found.fields["curve"]["area"] < 1
    blind = protocol.evaluate(replace(job, model=model.alone()), (job.items("val"), job.items("test")))
    for name in ("combined", "seen", "unseen", "harmonic"):
        adds = set_adds(found.scores[name], blind.scores[name])
        assert found.fields["set_adds_to"][name] == adds
        assert adds["mean"] != 0
    assert found.fields["set_adds"] == found.fields["set_adds_to"]["combined"]
    fixed = GeneralisedProtocol(validation_tasks=7, fixed_seen=True)
    frozen = fixed.evaluate(job, (job.items("val"), job.items("test")))
    assert frozen.fields["curve"]["area"] != found.fields["curve"]["area"]
