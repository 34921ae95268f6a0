"""Sides on a table of embeddings: `fewset.evaluate`, and a plain loop over tasks with its own sampling.

The plain loop is what published code does that scores tasks on embeddings: a data loader draws the items of
one task with Python's `random`, fetches and stacks them one by one; the prototypes are found class by class,
compared by `torch.cdist`, and the hits counted. The table is made up: 20 classes of 600 rows, as many as
miniImageNet's test split has.
"""

import random
import time
from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

from fewset.bench.photo_sides import SEED
from fewset.bench.workers import Repetition
from fewset.evaluation.scoring import evaluate
from fewset.models.adapters.identity import Identity
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.model import FewShotModel
from fewset.tasks.spec import TaskSpec

CLASSES, ROWS = 20, 600


def made_up_table(dim: int) -> tuple[Float[Tensor, "items D"], Int[Tensor, " items"]]:
    """Classes around centres of their own, near enough to each other that there are mistakes."""
    generator = torch.Generator().manual_seed(SEED)
    labels = torch.arange(CLASSES).repeat_interleave(ROWS)
    centres = 2 * torch.randn(CLASSES, dim, generator=generator) / dim**0.25
    return centres[labels] + torch.randn(len(labels), dim, generator=generator), labels


class TableScoring:
    """`fewset.evaluate` with ProtoNet; `each` tasks in a repetition."""

    def __init__(self, dim: int, each: int, **sizes: int) -> None:
        self.features, self.labels = made_up_table(dim)
        self.model = FewShotModel(nn.Identity(), Identity(dim), PrototypeHead(dim))
        self.spec = TaskSpec(tasks=each, **sizes)

    def __call__(self) -> Repetition:
        began = time.perf_counter()
        score = evaluate(self.model, self.features, self.labels, self.spec)
        return _repetition(time.perf_counter() - began, self.spec, score.per_task)


class _Items(Sampler[list[int]]):
    """The items of one task after another: so many classes, then so many items of each."""

    def __init__(self, labels: list[int], spec: TaskSpec) -> None:
        self.spec = spec
        self.items: dict[int, list[int]] = {label: [] for label in labels}
        for item, label in enumerate(labels):
            self.items[label].append(item)
        self.random = random.Random(SEED)

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(self.spec.tasks):
            classes = self.random.sample(sorted(self.items), self.spec.way)
            count = self.spec.shot + self.spec.query
            drawn = [self.random.sample(self.items[label], count) for label in classes]
            yield torch.cat([torch.tensor(each) for each in drawn]).tolist()


class PlainTable:
    """The loop over tasks, one at a time; `each` tasks in a repetition."""

    def __init__(self, dim: int, each: int, **sizes: int) -> None:
        features, labels = made_up_table(dim)
        self.spec = TaskSpec(tasks=each, **sizes)
        items = _Items(labels.tolist(), self.spec)
        self.loader = DataLoader(
            TensorDataset(features, labels), batch_sampler=items, collate_fn=self._collate
        )

    def __call__(self) -> Repetition:
        began = time.perf_counter()
        accuracies = []
        with torch.no_grad():
            for support, support_labels, query, query_labels in self.loader:
                classes = range(len(torch.unique(support_labels)))
                prototypes = torch.stack([support[support_labels == label].mean(dim=0) for label in classes])
                scores = -torch.cdist(query, prototypes)
                right = (scores.argmax(dim=1) == query_labels).sum().item()
                accuracies.append(right / len(query_labels))
        return _repetition(time.perf_counter() - began, self.spec, np.array(accuracies))

    def _collate(self, items: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The support and the queries of a task, with labels from 0 on."""
        known = [int(label) for _, label in items]
        classes = list(dict.fromkeys(known))
        rows = torch.stack([row for row, _ in items]).reshape(self.spec.way, -1, items[0][0].shape[0])
        labels = torch.tensor([classes.index(label) for label in known]).reshape(self.spec.way, -1)
        shot = self.spec.shot
        return (
            rows[:, :shot].flatten(0, 1),
            labels[:, :shot].flatten(),
            rows[:, shot:].flatten(0, 1),
            labels[:, shot:].flatten(),
        )


def _repetition(seconds: float, spec: TaskSpec, accuracies: Float[np.ndarray, " tasks"]) -> Repetition:
    images = spec.tasks * spec.way * (spec.shot + spec.query)
    return {"seconds": seconds, "images": images, "tasks": spec.tasks, "accuracies": accuracies.tolist()}
