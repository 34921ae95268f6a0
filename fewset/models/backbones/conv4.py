"""The ConvNet of the paper: four blocks of 64 channels and a global pool, 113,088 parameters, 64-d."""

from jaxtyping import Float
from torch import Tensor, nn

from fewset.core.errors import UserError, refuse_unknown
from fewset.models.backbones import IMAGENET_MEAN, IMAGENET_STD, Channels, MapBackbone, register_backbone
from fewset.models.layers.pixels import PixelBlock
from fewset.models.layers.pooling import POOLS


def _block(
    channels_in: int, channels_out: int, kind: type[nn.Sequential] = nn.Sequential, halves: bool = True
) -> nn.Sequential:
    # Maximum and ReLU commute; pooling first leaves a quarter of the values to the ReLU.
    return kind(
        nn.Conv2d(channels_in, channels_out, 3, padding=1),
        nn.BatchNorm2d(channels_out),
        nn.MaxPool2d(2) if halves else nn.Identity(),
        nn.ReLU(),
    )


@register_backbone("conv4")
class Conv4(MapBackbone):
    """Inputs of 16 pixels a side or more; the paper's are 84.

    What the last block leaves of an image (5 x 5 positions of 84 pixels) is pooled: its maximum, as in the
    authors' runs, or its average.

    The first `halvings` blocks halve the sides. Methods on maps may want larger ones: RelationNet and DN4
    have two halvings, which leave 21 x 21 positions of 84 pixels, and 7 x 7 of 28.
    """

    least_size = 16

    def __init__(
        self,
        input_size: int = 84,
        mean: Channels = IMAGENET_MEAN,
        std: Channels = IMAGENET_STD,
        dim: int = 64,
        pool: str = "maximum",
        halvings: int = 4,
    ) -> None:
        super().__init__()
        refuse_unknown("pool", pool, POOLS)
        if not 1 <= halvings <= 4:
            raise UserError(f"halvings is {halvings}, expected 1 to 4")
        self.dim, self.input_size, self.mean, self.std = dim, input_size, mean, std
        self.blocks = nn.Sequential(
            _block(3, dim, PixelBlock), *(_block(dim, dim, halves=number < halvings) for number in (1, 2, 3))
        )
        self.pool = POOLS[pool]()

    def maps(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B D h w"]:
        left: Tensor = self.blocks(images)
        return left

    def cut(self, blocks: int) -> tuple[nn.Module, nn.Module]:
        """The first blocks, and the others, which make the maps of their output."""
        if not 0 < blocks < len(self.blocks):
            raise UserError(f"got {blocks} blocks, expected 1 to {len(self.blocks) - 1}")
        return self.blocks[:blocks], self.blocks[blocks:]
