"""The interface of models for training and scoring: of those that embed, and of MAML, which does not.

Callers ask a model's `capabilities` what it can do, never its class.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import chain
from typing import cast

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from fewset.models.backbones import Backbone, Takes


@dataclass(frozen=True)
class Capabilities:
    """What a model can do: `model.capabilities`.

    `takes`: whether an item of its data is an image or a row of features. `embeds`: it has embeddings, for
    prototypes, transduction and the like. `adapts`: its adapter changes them. `maps`: its tasks are made of
    maps (H, W, D) in place of embeddings. `adapts_queries`: its adapter changes queries, too.
    `adapter_fitted`: its adapter starts from the features and classes of the train split.
    """

    takes: Takes
    embeds: bool
    adapts: bool
    maps: bool = False
    adapts_queries: bool = False
    adapter_fitted: bool = False


def device_of(model: nn.Module) -> torch.device:
    """The device of a model's parameters and buffers; the CPU for a model without any."""
    return next(chain(model.parameters(), model.buffers()), torch.empty(0)).device


class TaskModel(nn.Module, ABC):
    """Classifies the queries of many tasks at once, from one item an image, the same for all tasks."""

    backbone: Backbone

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = cast(Backbone, backbone)

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this model can do."""

    @abstractmethod
    def items_of(self, images: Shaped[Tensor, "B 3 H W"]) -> Shaped[Tensor, "B *places D"]:
        """The items that tasks are made of, a row or a map for each image."""

    @abstractmethod
    def forward(
        self,
        support: Shaped[Tensor, "T N K *places D"],
        query: Shaped[Tensor, "T M *places D"],
        context: Shaped[Tensor, "T C D"] | None = None,
        mask: Bool[Tensor, "T N K"] | None = None,
    ) -> Float[Tensor, "T M N"]:
        """Logits from the items of tasks."""

    def folded(self, images: Shaped[Tensor, "B 3 H W"]) -> "TaskModel":  # noqa: ARG002
        """A model for evaluation that gives the same items, perhaps faster; checked on these images."""
        return self

    @property
    def input_size(self) -> int:
        """Pixels a side of the images that the backbone takes."""
        return self.backbone.input_size

    def prepare(self, images: Shaped[Tensor, "B 3 H W"]) -> Float[Tensor, "B 3 H W"]:
        """Stored pixels (0 to 255), normalised with the backbone's mean and deviation."""
        mean, std = (
            torch.tensor(values, device=images.device).view(1, 3, 1, 1)
            for values in (self.backbone.mean, self.backbone.std)
        )
        return images.mul(1 / (255 * std)).sub_(mean / std)
