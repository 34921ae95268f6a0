"""The network of EfficientNet-Lite with folded batch normalisation, in torch and as an ONNX file."""

from collections.abc import Iterable
from math import ceil
from typing import Any, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from fewset.core.extras import import_extra
from fewset.encoders.onnx_rows import IMAGES, ROWS, open_session

DIM = 1280
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
        inner = (
            value if block.expand_conv is None else graph.relu6(graph.convolution(value, block.expand_conv))
        )
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
        graph = helper.make_graph(
            self.nodes,
            "EfficientNet-Lite",
            [helper.make_tensor_value_info(IMAGES, kind, ["B", 3, "H", "W"])],
            [helper.make_tensor_value_info(ROWS, kind, ["B", DIM])],
            self.weights,
        )
        opset = helper.make_opsetid("", _OPSET)
        file: bytes = helper.make_model(
            graph, opset_imports=[opset], ir_version=_IR_VERSION
        ).SerializeToString()
        return file
