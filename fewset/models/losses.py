"""Losses of a training step. They return elementwise values; the caller reduces."""

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from fewset.models.similarity import Similarity
from fewset.tasks.episode import class_major_labels

Scored = Literal["adapted", "unadapted"]
Transform = Callable[[Tensor, Tensor | None, Tensor], Tensor]


def task_loss(logits: Float[Tensor, "T M N"], labels: Int[Tensor, "T M"]) -> Float[Tensor, "T M"]:
    """Cross-entropy of each query."""
    return F.cross_entropy(logits.mT, labels, reduction="none")


def contrastive_logits(
    transform: Transform,
    items: Float[Tensor, "T N KQ D"],
    similarity: Similarity,
    temperature: float,
    scored: Scored = "adapted",
) -> tuple[Float[Tensor, "T M N"], Int[Tensor, "T M"]]:
    """Logits and labels of the contrastive term (section 4.3): every item against the adapted class centres.

    The set function runs over the items of each class by themselves, support and queries together; the
    mean of its output is the class's centre. The paper scores the adapted items, the authors' code the
    unadapted ones: `scored` chooses.
    """
    tasks, way, per_class, _ = items.shape
    one_class = torch.zeros(tasks * way, per_class, dtype=torch.long, device=items.device)
    adapted = transform(items.flatten(0, 1), None, one_class).view_as(items)
    centres = adapted.mean(dim=2)
    instances = (adapted if scored == "adapted" else items).flatten(1, 2)
    labels = class_major_labels(tasks, way, per_class, items.device)
    return similarity(instances, centres) / temperature, labels
