"""What the set adds: a model scored without the rest of its set, and with that of another task instead."""

from collections.abc import Callable, Mapping
from functools import partial
from math import isnan
from typing import Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from fewset.core.randomness import Stream, mix
from fewset.evaluation.scoring import score_tasks
from fewset.models.model import FewShotModel, compares_class_means
from fewset.tasks.episode import Episode, split
from fewset.tasks.sampling import ClassIndex, sample_tasks
from fewset.tasks.scores import ALONE, FOREIGN, SET_ADDS, SET_ADDS_TO, Score, compare
from fewset.tasks.spec import TaskSpec


def score_controls(
    model: FewShotModel, features: Shaped[Tensor, "items *places D"], index: ClassIndex, spec: TaskSpec
) -> dict[str, Score]:
    """The scores of the two controls, on the same embeddings and tasks as the model itself.

    "alone": each item is adapted as a set of one, without context. "foreign": each class is adapted in the
    set of another task, in place of one of its classes; a transductive model is given that task's queries.
    A model that uses its set is worse in both; one that only normalises is worse in neither.
    """
    scores = {ALONE: score_tasks(model.alone(), features, index, spec)}
    if not model.capabilities.adapts_queries or compares_class_means(model):
        classify = partial(foreign_logits, model)
        foreign = score_tasks(classify, features, index, spec, draw=with_another_task(index, spec))
        scores[FOREIGN] = Score.of(foreign.per_task, spec, index.digest)
    return scores


def set_adds(score: Score, alone: Score) -> dict[str, float | None]:
    """The score minus that of sets of one, with half its paired 95 % interval; for result files."""
    difference = compare(score, alone)
    half = None if isnan(difference.ci95) else difference.ci95  # JSON has no NaN
    return {"mean": difference.mean, "ci95": half}


def set_adds_fields(headline: str, scores: Mapping[str, Score], alone: Mapping[str, Score]) -> dict[str, Any]:
    """What the set adds to the headline and to each score of a setting that has them `alone`, too."""
    adds = {name: set_adds(scores[name], alone[name]) for name in alone}
    return {SET_ADDS: adds[headline], SET_ADDS_TO: adds} if adds else {}


def with_another_task(index: ClassIndex, spec: TaskSpec) -> Callable[[int, int], Episode]:
    """Draws each task together with another one, chosen by the seed and the number of the task alone."""
    other = TaskSpec(**{**vars(spec), "seed": mix(spec.seed, Stream.OTHER_TASKS)})

    def draw(first: int, last: int) -> Episode:
        drawn = (torch.from_numpy(sample_tasks(index, each, first, last)) for each in (spec, other))
        own, foreign = (split(rows, spec.shot) for rows in drawn)
        support, query = (torch.cat(pair, dim=1) for pair in zip(own[:2], foreign[:2], strict=True))
        return Episode(support, query, own.query_labels)

    return draw


def foreign_logits(
    model: FewShotModel, support: Float[Tensor, "T N2 K *places D"], query: Float[Tensor, "T M2 *places D"]
) -> Float[Tensor, "T M N"]:
    """Logits of the first half of the queries, each class adapted among the classes of the second half."""
    (own, others), (query, context) = support.chunk(2, dim=1), query.chunk(2, dim=1)
    tasks, way = own.shape[:2]
    mine = torch.eye(way, dtype=torch.bool, device=own.device).view(1, way, way, *[1] * (own.ndim - 2))
    sets = torch.where(mine, own.unsqueeze(2), others.unsqueeze(1)).flatten(0, 1)  # one for each class
    each = torch.arange(way, device=own.device).repeat(tasks)
    row = torch.arange(tasks * way, device=own.device)
    given = context.repeat_interleave(way, dim=0) if model.transductive else None
    adapted = model.adapt(sets, given)[row, each]
    if not model.capabilities.adapts_queries:
        logits: Tensor = model.head(adapted.view(tasks, way, *adapted.shape[1:]), query)
        return logits
    queries = model.adapt_queries(sets, query.repeat_interleave(way, dim=0))
    one_class: Tensor = model.head(adapted.unsqueeze(1), queries)
    return one_class.view(tasks, way, -1).mT
