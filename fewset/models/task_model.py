"""What training and scoring ask of any model, of one that embeds and of MAML, which does not."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from fewset.models.capabilities import Capabilities


class TaskModel(nn.Module, ABC):
    """Classifies the queries of many tasks at once, from what it makes of each image by itself.

    A class, not a `typing.Protocol`: all that takes one needs a torch module too, which that cannot say.
    """

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this model can do."""

    @abstractmethod
    def items_of(self, images: Shaped[Tensor, "B 3 H W"]) -> Shaped[Tensor, "B D"]:
        """What tasks gather of each image: one row, that does not depend on the task."""

    @abstractmethod
    def forward(
        self,
        support: Shaped[Tensor, "T N K D"],
        query: Shaped[Tensor, "T M D"],
        context: Shaped[Tensor, "T C D"] | None = None,
        mask: Bool[Tensor, "T N K"] | None = None,
    ) -> Float[Tensor, "T M N"]:
        """Logits from the items of tasks."""

    def folded(self, images: Shaped[Tensor, "B 3 H W"]) -> "TaskModel":  # noqa: ARG002
        """This model or one that gives the same items faster, tried on these images; for evaluation alone."""
        return self

    @property
    def input_size(self) -> int:
        """Pixels a side of the images that the backbone takes."""
        return self.backbone.input_size  # type: ignore[return-value]

    def prepare(self, images: Shaped[Tensor, "B 3 H W"]) -> Float[Tensor, "B 3 H W"]:
        """Stored pixels (0 to 255) as the backbone wants them: normalised with its own mean and deviation."""
        mean, std = (
            torch.tensor(values, device=images.device).view(1, 3, 1, 1)
            for values in (self.backbone.mean, self.backbone.std)
        )
        return images.mul(1 / (255 * std)).sub_(mean / std)
