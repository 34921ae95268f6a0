"""Backbones: images in, embeddings out. One file each, `@register_backbone("name")`.

The contract: `Backbone(input_size=…, mean=…, std=…, **options)` maps normalised images (B, 3, H, W) to
(B, `dim`), and has the attributes `dim`, `input_size`, `mean`, `std`. Input size, mean and deviation
belong to the weights, never to the image set: they are stored with them. A backbone whose input is no image,
but a row of a table of features, says so by the class attribute `takes = "features"`.
"""

from typing import Protocol

from jaxtyping import Float
from torch import Tensor, nn

from fewset.models.preprocessing import Channels
from fewset.runtime.registry import Registry


class Backbone(Protocol):
    """What the model asks of a backbone."""

    dim: int
    input_size: int
    mean: Channels
    std: Channels

    def __call__(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B D"]: ...


BACKBONES: Registry[type[nn.Module]] = Registry("backbone", __name__)
register_backbone = BACKBONES.register
