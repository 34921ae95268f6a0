"""Backbones: images in, embeddings out. One file each, `@register_backbone("name")`.

The contract: `Backbone(input_size=…, mean=…, std=…, **options)` maps normalised images (B, 3, H, W) to
(B, `dim`), and has the attributes `dim`, `input_size`, `mean`, `std`, and `least_size` where small images are
not enough for it. Input size, mean and deviation
belong to the weights, never to the image set: they are stored with them. A backbone whose input is no image,
but a row of a table of features, says so by the class attribute `takes = "features"`: it is built as
`Backbone(dim, **options)`, and the mean of the training rows is put into its buffer `centre` if it has one.

Some heads compare maps: what a backbone makes of an image before it pools its places to one embedding. A
backbone that can give them has a method `maps` and a module `pool` (`MapBackbone`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from fewset.core.registry import Registered, Registry

Channels = tuple[float, float, float]

IMAGENET_MEAN: Channels = (0.485, 0.456, 0.406)
IMAGENET_STD: Channels = (0.229, 0.224, 0.225)

BACKBONES: Registry[type[nn.Module]] = Registry("backbone", __name__)


class MapBackbone(nn.Module, ABC):
    """A backbone that pools maps, and gives them to heads that want them; `dim` is the number of channels."""

    pool: nn.Module

    @abstractmethod
    def maps(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B D h w"]:
        """What is pooled."""

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B D"]:
        embedded: Tensor = self.pool(self.maps(images))
        return embedded


def register_backbone(name: str) -> Callable[[Registered], Registered]:
    """Make a backbone known by name: a decorator for its class.

    The class is built with `input_size`, `mean`, `std` and its options, which become the keys of
    `[model.backbone_options]` in a recipe; it keeps these three and has the embedding size `dim`. It is
    called with normalised images (B, 3, H, W) and returns embeddings (B, D).

    Args:
        name: The name in recipes, which must be free.

    Returns:
        A decorator that gives the class back as it is.

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
