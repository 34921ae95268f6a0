"""EfficientNet-Lite with folded batch normalisation, in torch."""

from collections.abc import Mapping
from math import ceil

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from fewset.encoders.efficientnet_lite import DIM, STEM, BlockShape, block_shapes


def efficientnet_lite(
    width: float, depth: float, weights: Mapping[str, np.ndarray], device: str
) -> "EfficientNetLite":
    """The network with folded weights, for use without training."""
    with torch.device("meta"):  # no initial weights: they would be drawn from the global generator
        network = EfficientNetLite(width, depth)
    state = {name: torch.from_numpy(values) for name, values in weights.items()}
    network.load_state_dict(state, assign=True)
    network.eval().requires_grad_(False).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    return network


class SameConvolution(nn.Conv2d):
    """Padded as TensorFlow's "SAME": an odd number of zeros has one more at the end."""

    def __init__(
        self, channels_in: int, channels_out: int, kernel: int, stride: int = 1, groups: int = 1
    ) -> None:
        # At stride 1 both sides get the same padding, which the convolution adds itself without a copy.
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
    """Expand, filter each channel separately, project; add the input if the shapes agree."""

    def __init__(self, shape: BlockShape) -> None:
        super().__init__()
        inner = shape.channels_in * shape.expansion
        self.expand_conv = SameConvolution(shape.channels_in, inner, 1) if shape.expansion > 1 else None
        self.depthwise_conv = SameConvolution(inner, inner, shape.kernel, shape.stride, groups=inner)
        self.project_conv = SameConvolution(inner, shape.channels_out, 1)
        self.residual = shape.residual

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D h w"]:
        inner = images if self.expand_conv is None else _relu6(self.expand_conv(images))
        output: Tensor = self.project_conv(_relu6(self.depthwise_conv(inner)))
        return output.add_(images) if self.residual else output


class EfficientNetLite(nn.Module):
    """Normalised images to rows of dimension 1,280."""

    def __init__(self, width: float, depth: float) -> None:
        super().__init__()
        self.conv_stem = SameConvolution(3, STEM, 3, 2)
        shapes = block_shapes(width, depth)
        self.blocks = nn.Sequential(*map(Block, shapes))
        self.conv_head = SameConvolution(shapes[-1].channels_out, DIM, 1)

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B 1280"]:
        embedded: Tensor = self.blocks(_relu6(self.conv_stem(images)))
        return _relu6(self.conv_head(embedded)).mean(dim=(2, 3))


def _relu6(values: Tensor) -> Tensor:
    return F.relu6(values, inplace=True)
