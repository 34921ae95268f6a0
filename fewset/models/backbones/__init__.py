"""Backbones: images in, embeddings out. One file each, `@register_backbone("name")`.

A backbone is built as `Class(input_size=…, mean=…, std=…, **options)` and maps normalised images
(B, 3, H, W) to embeddings (B, `dim`). Input size, mean and deviation belong to the weights, never to the
image set, and are stored with the weights. A backbone with the class attribute `takes = "features"` is given
rows of a table in place of images, and is built as `Class(dim, **options)`.

Some heads compare maps: the embeddings at all places of an image, before they are pooled to one. A backbone
that can give them derives from `MapBackbone`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from fewset.core.registry import Registered, Registry
from fewset.models.channels import IMAGENET_MEAN as IMAGENET_MEAN
from fewset.models.channels import IMAGENET_STD as IMAGENET_STD
from fewset.models.channels import Channels as Channels

Takes = Literal["images", "features"]

BACKBONES: Registry[type[nn.Module]] = Registry("backbone", __name__)


class Backbone(nn.Module):
    """The attributes of a backbone. A custom one need not derive from this class, but must have them."""

    dim: int
    input_size: int
    """Pixels a side of the images that it takes."""
    mean: Channels
    std: Channels
    takes: Takes = "images"
    least_size: int = 1
    """The smallest `input_size` that it can take."""


def taken_by(backbone: object) -> Takes:
    """What a backbone takes, a class or an object: images, unless it says otherwise."""
    takes: Takes = getattr(backbone, "takes", "images")
    return takes


class MapBackbone(Backbone, ABC):
    """A backbone that pools maps, and gives them to heads that want them; `dim` is the number of channels."""

    pool: nn.Module

    @abstractmethod
    def maps(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B D h w"]:
        """The maps, before they are pooled."""

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B D"]:
        embedded: Tensor = self.pool(self.maps(images))
        return embedded


def register_backbone(name: str) -> Callable[[Registered], Registered]:
    """Class decorator: register a backbone by name.

    The class is built with `input_size`, `mean`, `std` and its options, which become the keys of
    `[model.backbone_options]` in a recipe; it keeps these three and has the embedding size `dim`. It is
    called with normalised images (B, 3, H, W) and returns embeddings (B, D).

    Args:
        name: The name in recipes, which must be free.

    Returns:
        The decorator, which returns the class unchanged.

    Raises:
        ValueError: The name is taken.

    Example:
        >>> import fewset
        >>> from torch import nn
        >>> @fewset.register_backbone("mean-colour")
        ... class MeanColour(nn.Module):
        ...     def __init__(self, input_size=84, mean=(0.5, 0.5, 0.5), std=(0.25, 0.25, 0.25)):
        ...         super().__init__()
        ...         self.dim, self.input_size, self.mean, self.std = 3, input_size, mean, std
        ...
        ...     def forward(self, images):
        ...         return images.mean(dim=(2, 3))
    """
    return BACKBONES.register(name)
