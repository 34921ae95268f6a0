"""The network of EfficientNet-Lite, its batch normalisation folded into the convolutions."""

from math import ceil
from typing import NamedTuple

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

DIM = 1280
_STEM = 32


class _Stage(NamedTuple):
    kernel: int
    stride: int
    expansion: int
    channels: int
    repeats: int


_STAGES = (
    _Stage(3, 1, 1, 16, 1),
    _Stage(3, 2, 6, 24, 2),
    _Stage(5, 2, 6, 40, 2),
    _Stage(3, 2, 6, 80, 3),
    _Stage(5, 1, 6, 112, 3),
    _Stage(5, 2, 6, 192, 4),
    _Stage(3, 1, 6, 320, 1),
)


class SameConvolution(nn.Conv2d):
    """Padded as TensorFlow's "SAME": where an odd number of zeros is needed, the last side has one more."""

    def __init__(
        self, channels_in: int, channels_out: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> None:
        # At stride 1 both sides need the same, which the convolution adds by itself without a copy.
        inside = kernel // 2 if stride == 1 else 0
        super().__init__(channels_in, channels_out, kernel, stride, padding=inside, groups=groups)

    def forward(self, input: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D h w"]:
        kernel, stride = self.kernel_size[0], self.stride[0]
        if stride > 1:
            pads: list[int] = []
            for length in (input.shape[3], input.shape[2]):
                zeros = max(0, (ceil(length / stride) - 1) * stride + kernel - length)
                pads += [zeros // 2, zeros - zeros // 2]
            input = F.pad(input, pads)
        return super().forward(input)


class Block(nn.Module):
    """Expand, filter each channel by itself, project; the input is added where the shapes agree."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels_in * expansion
        self.expand_conv = SameConvolution(channels_in, inner, 1) if expansion > 1 else None
        self.depthwise_conv = SameConvolution(inner, inner, kernel, stride, groups=inner)
        self.project_conv = SameConvolution(inner, channels_out, 1)
        self.residual = stride == 1 and channels_in == channels_out

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D h w"]:
        inner = images if self.expand_conv is None else _relu6(self.expand_conv(images))
        output: Tensor = self.project_conv(_relu6(self.depthwise_conv(inner)))
        return output.add_(images) if self.residual else output


class EfficientNetLite(nn.Module):
    """Normalised images to 1,280 numbers. Batch normalisation is part of the convolutions."""

    def __init__(self, width: float, depth: float) -> None:
        super().__init__()
        self.conv_stem = SameConvolution(3, _STEM, 3, 2)
        blocks: list[Block] = []
        channels = _STEM
        for number, stage in enumerate(_STAGES):
            scaled = 0 < number < len(_STAGES) - 1  # the first and the last keep their depth
            for repeat in range(ceil(stage.repeats * depth) if scaled else stage.repeats):
                wider = _round(stage.channels * width)
                stride = 1 if repeat else stage.stride
                blocks.append(Block(channels, wider, stage.kernel, stride, stage.expansion))
                channels = wider
        self.blocks = nn.Sequential(*blocks)
        self.conv_head = SameConvolution(channels, DIM, 1)

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B 1280"]:
        embedded: Tensor = self.blocks(_relu6(self.conv_stem(images)))
        return _relu6(self.conv_head(embedded)).mean(dim=(2, 3))


def _relu6(values: Tensor) -> Tensor:
    return F.relu6(values, inplace=True)


def _round(channels: float) -> int:
    """The nearest multiple of 8, but never less than nine tenths."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * channels else rounded + 8
