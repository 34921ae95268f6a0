"""Few-shot domain generalisation: labelled items from one domain, queries from the same or another.

Section 5.3.1 of the paper and supplement D.3. A model is trained on tasks within one domain only, support
and queries alike ("trained on tasks from the Clipart domain"); no task of the training crosses domains.
Then it is scored on tasks of new classes, aligned between the domains: C→C, C→R (support from Clipart,
queries from Real World) and R→R (both from the domain that was not trained on).
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from fewset.data.images.store import ImageSet
from fewset.evaluation.embedding import evaluating
from fewset.evaluation.scoring import score_tasks
from fewset.models.task_model import TaskModel
from fewset.tasks.episode import split as split_items
from fewset.tasks.sampling import ClassIndex, sample_tasks
from fewset.tasks.scores import Score
from fewset.tasks.spec import TaskSpec


@dataclass(frozen=True, eq=False)
class Crossing:
    """The items of two domains: rows of the image set to embed, and the index that draws tasks from them."""

    rows: Int[np.ndarray, "items"]
    index: ClassIndex


def cross_domains(images: ImageSet, split: str, support: str, query: str) -> Crossing:
    """Tasks whose support is from one domain of a set and whose queries are from another, or from the same.

    No query has the origin of a shot: a sketch and the photo it was traced from are never in one task. With
    one domain the tasks are those of the standard setting.
    """
    supports, queries = (images.select(split, domain).rows for domain in (support, query))
    rows = np.union1d(supports, queries)
    if support == query:
        return Crossing(rows, ClassIndex(images.labels[rows], images.class_names))
    index = ClassIndex(
        images.labels[rows],
        images.class_names,
        origins=None if images.origins is None else images.origins[rows],
        support=np.isin(rows, supports),
        query=np.isin(rows, queries),
    )
    return Crossing(rows, index)


def evaluate_cross_domain(
    model: TaskModel,
    features: Float[Tensor, "items D"],
    index: ClassIndex,
    spec: TaskSpec,
    *,
    chunk: int | None = None,
    title: str = "",
) -> Score:
    """Score tasks across domains; `features` are the embeddings of the crossing's rows."""
    with evaluating(model):
        return score_tasks(model, features, index, spec, chunk=chunk, title=title)


@dataclass(frozen=True, eq=False)
class TaskPicture:
    """One task to look at: positions in the table of features, and the predicted way of each query."""

    support: Int[np.ndarray, "N K"]
    query: Int[np.ndarray, "N Q"]
    predicted: Int[np.ndarray, "N Q"]


def picture_task(
    model: TaskModel, features: Float[Tensor, "items D"], index: ClassIndex, spec: TaskSpec, number: int
) -> TaskPicture:
    """What the model makes of task `number`, for the paper's qualitative figure; row n holds class n."""
    rows = sample_tasks(index, spec, number, number + 1)
    episode = split_items(features[torch.from_numpy(rows).to(features.device)], spec.shot)
    with evaluating(model):
        predicted = model(episode.support, episode.query).argmax(-1)
    return TaskPicture(
        rows[0, :, : spec.shot],
        rows[0, :, spec.shot :],
        predicted.reshape(spec.way, spec.query).cpu().numpy(),
    )
