"""The network of EfficientNet-Lite computed by onnxruntime, which is faster than torch on a CPU."""

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fewset.core.extras import import_extra
from fewset.encoders.efficientnet_lite_network import DIM, Block, EfficientNetLite, SameConvolution
from fewset.encoders.onnx_rows import IMAGES, ROWS
from fewset.encoders.onnx_session import open_session

_OPSET, _IR_VERSION = 13, 8  # old ones, which every onnxruntime reads


class OnnxNetwork:
    """The same function as `network`, on the CPU, to about 1e-5.

    The graph is made from the weights in memory, so that there is no second file that could differ. Unlike
    torch, onnxruntime gives an image the same row whatever the batch it comes in. It computes in the thread
    that calls it, and several may: that is faster than several threads for one batch.
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
    """Nodes and weights of an ONNX file, one after another; a value is known by its name."""

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
        """The file whose rows are these maps of one pixel."""
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
