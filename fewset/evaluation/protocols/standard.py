"""Tasks of one split: shots and queries of classes that the model has not seen."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from fewset.evaluation.controls import score_controls, set_adds
from fewset.evaluation.embedding import evaluating
from fewset.evaluation.protocols import Job, Outcome, Protocol, register_protocol
from fewset.evaluation.scoring import score_tasks
from fewset.models.adapters.identity import Identity
from fewset.models.model import FewShotModel
from fewset.tasks.episode import prototypes, split
from fewset.tasks.items import Items
from fewset.tasks.sampling import sample_tasks
from fewset.tasks.scores import ALONE, SET_ADDS, Score


@register_protocol("standard")
@dataclass(frozen=True)
class Standard(Protocol):
    """Tasks of one split; a model that adapts is also scored without adaptation and without the set."""

    default_for: ClassVar = "images"

    def evaluate(self, job: Job, items: Items) -> Outcome:
        return score_items(job, items)


def score_items(job: Job, items: Items) -> Outcome:
    """Score tasks of these items; a model that adapts also without adaptation and without the set."""
    features = job.embed(items)
    with evaluating(job.model) as model:
        job = replace(job, model=model)
        score = score_tasks(model, features, items.index, job.spec, title="scoring")
        if not model.capabilities.adapts:
            return Outcome(score, left_out=items.left_out)
        before = score_tasks(unadapted(job.embedding_model), features, items.index, job.spec)
        controls = score_controls(job.embedding_model, features, items.index, job.spec)
        examples = _example_tasks(job, features, items, score, before)
    return Outcome(
        score,
        controls,
        before=before,
        examples=examples,
        fields={SET_ADDS: set_adds(score, controls[ALONE])},
        left_out=items.left_out,
    )


def unadapted(model: FewShotModel) -> FewShotModel:
    """The same model without its adaptation: plain prototypes of the same embeddings."""
    return FewShotModel(model.backbone, Identity(model.dim), model.head, model.average)


def _example_tasks(
    job: Job, features: Shaped[Tensor, "items D"], items: Items, after: Score, before: Score
) -> dict[str, np.ndarray]:
    """Four example tasks: where adaptation helps most, clearly, typically, and where it hurts most."""
    order = np.argsort(before.per_task - after.per_task, kind="stable")
    numbers = [int(order[round(share * (len(order) - 1))]) for share in (0.0, 0.1, 0.5, 1.0)]
    rows = np.concatenate([sample_tasks(items.index, job.spec, number, number + 1) for number in numbers])
    support, query, query_labels = split(features[torch.from_numpy(rows)], job.spec.shot)
    model = job.embedding_model
    adapted = prototypes(model.adapt(support, query if model.transductive else None))
    one_by_one = prototypes(model.alone().adapt(support))
    return {
        "task": np.array(numbers),
        "query": query.cpu().numpy(),
        "query_labels": query_labels.cpu().numpy(),
        "before": prototypes(support).cpu().numpy(),
        "after": adapted.cpu().numpy(),
        "alone": one_by_one.cpu().numpy(),
        "accuracy_before": before.per_task[numbers],
        "accuracy_after": after.per_task[numbers],
    }
