"""Which items are trained on, and from their rows in an image store to what a backbone takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped, UInt8
from torch import Tensor

from fewset.compute.devices import Precision, send
from fewset.core.errors import UserError
from fewset.data.images.augmentation import AREA, Area, at_scale, augment
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
    crop_area: Area = AREA,
) -> Float[Tensor, "B 3 size size"]:
    """Gather, move to the model's device, augment (or crop, when there are no steps), normalise."""
    pixels = send(torch.from_numpy(images[rows]), device_of(model)).permute(0, 3, 1, 2)
    if model.scales and "resized_crop" not in steps:
        pixels = at_scale(pixels, model.input_size, model.scales[0])
    return model.prepare(augment(pixels, steps, model.input_size, seed, crop_area))


def check_crop_area(area: Area, steps: Sequence[str]) -> None:
    """Refuse shares of an image's area that cannot be, or that no step takes."""
    if not 0 < area[0] <= area[1] <= 1:
        raise UserError(
            f"crop_area is {list(area)}, expected two shares above 0 and up to 1, the least first"
        )
    if area != AREA and "resized_crop" not in steps:
        raise UserError("crop_area is of the step resized_crop; leave it out, or add that step to augment")


def check_positive(config: Any, *keys: str) -> None:
    """Reject numbers of a configuration that are below 1."""
    for key in keys:
        if getattr(config, key) < 1:
            raise UserError(f"{key} is {getattr(config, key)}, expected 1 or more")


def embed_batch(
    model: TaskModel, images: Float[Tensor, "B 3 size size"], precision: Precision
) -> Shaped[Tensor, "B *places D"]:
    """What tasks gather of a step's images (embeddings), the backbone in that precision.

    What follows is not: distances are differences of large numbers, and cost nothing beside the backbone.
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
        """Those of one domain, where it is given, less a share of each train class that is held out."""
        return cls(images, trained_items(images, domain, held_out, seed), images.select("val", domain))


def trained_items(images: ImageSet, domain: str | None, share: float, seed: int) -> Items:
    """The items of the train split, less the share of each class that is held out (none where it is 0)."""
    train = images.select("train", domain)
    return train.take(hold_out(train.labels, share, seed).train) if share else train
