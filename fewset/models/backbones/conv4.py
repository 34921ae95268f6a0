"""The ConvNet of the paper: four blocks of 64 channels and a global pool, 113,088 parameters, 64-d."""

from jaxtyping import Float
from torch import Tensor, nn

from fewset.models.backbones import register_backbone
from fewset.models.layers.pixels import PixelBlock
from fewset.models.preprocessing import IMAGENET_MEAN, IMAGENET_STD, Channels
from fewset.runtime.errors import UserError, refuse_unknown


def _block(channels_in: int, channels_out: int, kind: type[nn.Sequential] = nn.Sequential) -> nn.Sequential:
    # Maximum and ReLU commute; pooling first leaves a quarter of the numbers to the ReLU.
    return kind(
        nn.Conv2d(channels_in, channels_out, 3, padding=1),
        nn.BatchNorm2d(channels_out),
        nn.MaxPool2d(2),
        nn.ReLU(),
    )


class GlobalMaximum(nn.Module):
    def forward(self, features: Float[Tensor, "B D H W"]) -> Float[Tensor, "B D"]:
        return features.amax(dim=(2, 3))


class GlobalAverage(nn.Module):
    def forward(self, features: Float[Tensor, "B D H W"]) -> Float[Tensor, "B D"]:
        return features.mean(dim=(2, 3))


POOLS: dict[str, type[nn.Module]] = {"maximum": GlobalMaximum, "average": GlobalAverage}


@register_backbone("conv4")
class Conv4(nn.Module):
    """Inputs of 16 pixels a side or more; the paper's are 84.

    What the last block leaves of an image (5 x 5 positions of 84 pixels) is pooled: its maximum, as in the
    authors' runs, or its average.
    """

    def __init__(
        self,
        input_size: int = 84,
        mean: Channels = IMAGENET_MEAN,
        std: Channels = IMAGENET_STD,
        dim: int = 64,
        pool: str = "maximum",
    ) -> None:
        super().__init__()
        refuse_unknown("pool", pool, POOLS)
        self.dim, self.input_size, self.mean, self.std = dim, input_size, mean, std
        self.blocks = nn.Sequential(
            _block(3, dim, PixelBlock), _block(dim, dim), _block(dim, dim), _block(dim, dim)
        )
        self.pool = POOLS[pool]()

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B D"]:
        embedded: Tensor = self.pool(self.blocks(images))
        return embedded

    def cut(self, blocks: int) -> tuple[nn.Module, nn.Module]:
        """The first blocks, and the rest of the network that takes their output."""
        if not 0 < blocks < len(self.blocks):
            raise UserError(f"got {blocks} blocks, expected 1 to {len(self.blocks) - 1}")
        return self.blocks[:blocks], nn.Sequential(*list(self.blocks)[blocks:], self.pool)
