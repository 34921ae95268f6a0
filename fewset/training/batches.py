"""The items that a stage trains on, and batches of them: gathered, augmented, embedded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped, UInt8
from torch import Tensor

from fewset.compute.devices import Precision, send
from fewset.core.errors import UserError
from fewset.data.images.augmentation import augment
from fewset.data.images.store import ImageSet
from fewset.models.task_model import TaskModel, device_of
from fewset.tasks.hold_out import hold_out
from fewset.tasks.items import Items


def load_batch(
    model: TaskModel,
    images: UInt8[np.ndarray, "all H W 3"],
    rows: Int[np.ndarray, " B"],
    steps: Sequence[str],
    seed: int,
) -> Float[Tensor, "B 3 size size"]:
    """Gather, move to the model's device, augment (or crop, when there are no steps), normalise."""
    pixels = send(torch.from_numpy(images[rows]), device_of(model)).permute(0, 3, 1, 2)
    return model.prepare(augment(pixels, steps, model.input_size, seed))


def check_positive(config: Any, *keys: str) -> None:
    """Reject values of a configuration that are below 1."""
    for key in keys:
        if getattr(config, key) < 1:
            raise UserError(f"{key} is {getattr(config, key)}, expected 1 or more")


def embed_batch(
    model: TaskModel, images: Float[Tensor, "B 3 size size"], precision: Precision
) -> Shaped[Tensor, "B *places D"]:
    """The embeddings (or maps) of a step's images, with the backbone computed in this precision.

    All that follows is computed in float32: distances are differences of large values, and cost nothing
    beside the backbone.
    """
    if precision == "float32":
        return model.items_of(images)
    with torch.autocast(images.device.type, torch.bfloat16):
        return model.items_of(images).float()


@dataclass(frozen=True, eq=False)
class TrainingItems:
    """The items of an image set that a stage learns from, and those that its weights are chosen on."""

    images: ImageSet
    train: Items
    val: Items

    @classmethod
    def of(
        cls, images: ImageSet, domain: str | None = None, held_out: float = 0.0, seed: int = 0
    ) -> "TrainingItems":
        """The items of one domain if it is given, without the share of each train class that is held out."""
        train = images.select("train", domain)
        if held_out:
            train = train.take(hold_out(train.labels, held_out, seed).train)
        return cls(images, train, images.select("val", domain))
