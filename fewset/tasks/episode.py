"""A task as tensors, in class-major order, and the glossary of axes that the whole project uses.

======  ==============================================================
``T``   tasks
``N``   ways: classes in a task
``K``   shots: labelled items a class
``Q``   queries a class
``M``   queries of a task in all (``N * Q`` when every class has ``Q``)
``S``   items of a set that is adapted
``C``   items of its unlabelled context
``B``   any batch
``D``   embedding size
======  ==============================================================

Class-major: all items of class 0 first, then those of class 1, and so on. Labels are built here and
nowhere else.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from fewset.core.errors import UserError


class Episode(NamedTuple):
    """Tasks of images or of embeddings alike."""

    support: Shaped[Tensor, "T N K *item"]
    query: Shaped[Tensor, "T M *item"]
    query_labels: Int[Tensor, "T M"]


def split(items: Shaped[Tensor, "T N KQ *item"], shot: int) -> Episode:
    """The first `shot` items of each class are its support, the rest its queries."""
    tasks, way, per_class = items.shape[:3]
    if not 0 < shot < per_class:
        raise UserError(
            f"shot is {shot}, expected 1 to {per_class - 1}: each class has {per_class} items here"
        )
    return Episode(
        support=items[:, :, :shot],
        query=items[:, :, shot:].flatten(1, 2),
        query_labels=class_major_labels(tasks, way, per_class - shot, items.device),
    )


def class_major_labels(
    tasks: int, way: int, per_class: int, device: torch.device | None = None
) -> Int[Tensor, "T M"]:
    """Labels 0, 0, …, 1, 1, … of `way * per_class` items, the same for each task."""
    # Not repeat_interleave, which exporters write wrongly for sizes that are not constant.
    return torch.arange(way, device=device).unsqueeze(1).expand(-1, per_class).reshape(-1).expand(tasks, -1)


def prototypes(
    support: Float[Tensor, "T N K *item"], mask: Bool[Tensor, "T N K"] | None = None
) -> Float[Tensor, "T N *item"]:
    """The mean of each class's items; with a mask, of those that it marks (shots that differ by class)."""
    if mask is None:
        return support.mean(dim=2) if support.shape[2] > 1 else support.squeeze(2)
    chosen = mask[(..., *[None] * (support.ndim - mask.ndim))]
    return support.masked_fill(~chosen, 0).sum(dim=2) / chosen.sum(dim=2)
