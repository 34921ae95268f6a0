"""The accuracy of a head of the classifier on many tasks, many at once."""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float32, Int

from benchmarks.classifier.embedded import EmbeddedSet
from fewset.classify.background.head import episode_logits
from fewset.classify.heads import ClassifierHead, prepared
from fewset.tasks.episode import split
from fewset.tasks.sampling import ClassIndex, queries_apart, sample_apart, sample_tasks
from fewset.tasks.spec import TaskSpec

MOST_QUERIES = 15
_CHUNK_NUMBERS = 2**23  # of the rows of the tasks that are answered at once


def head_accuracy(head: ClassifierHead, items: EmbeddedSet, spec: TaskSpec) -> Float32[np.ndarray, " tasks"]:
    """The share of right answers on each task, from a fit on its shots: as `FewShotClassifier` has it.

    In single precision, which is quicker and, but for ties, gives the same answers.
    """
    rows = torch.from_numpy(prepared(items.features, head.power)).float()
    size = max(1, _CHUNK_NUMBERS // (spec.way * (spec.shot + spec.query) * rows.shape[1]))
    right = []
    for drawn in drawn_tasks(items, spec, size):
        episode = split(rows[torch.from_numpy(drawn)], spec.shot)
        answers = episode_logits(head, episode.support, episode.query).argmax(dim=-1)
        right.append((answers == episode.query_labels).float().mean(dim=1).numpy())
    return np.concatenate(right)


def drawn_tasks(items: EmbeddedSet, spec: TaskSpec, size: int = 1) -> Iterator[Int[np.ndarray, "T N KQ"]]:
    """The rows of the tasks, `size` at a time. Where items share origins, no query has that of a shot."""
    index = class_index_of(items)
    sample = sample_tasks if items.origins is None else sample_apart
    for first in range(0, spec.tasks, size):
        yield sample(index, spec, first, min(first + size, spec.tasks))


def class_index_of(items: EmbeddedSet) -> ClassIndex:
    """What tasks are drawn from."""
    return ClassIndex(items.labels, items.class_names, origins=items.origins, nearest=items.nearest)


def task_spec(
    items: EmbeddedSet,
    way: int,
    shot: int,
    tasks: int,
    seed: int,
    most: int = MOST_QUERIES,
    related: int = 0,
) -> TaskSpec:
    """Such tasks with as many queries a class as every class has, at most `most`.

    Where items share origins, and every class has more of them than shots, no two items of a task have one.
    """
    index = class_index_of(items)
    if items.origins is None:
        left = int(index.spare(shot, 0).min())
    else:
        alone = min(len(np.unique(items.origins[items.labels == label])) for label in index.classes) - shot
        left = alone if alone > 0 else queries_apart(index, shot)
    return TaskSpec(way, shot, max(1, min(most, left)), tasks, seed, related)
