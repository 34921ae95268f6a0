"""A classifier as one ONNX graph, from pixels to probabilities.

In: ``pixels`` (B, H, W, 3), bytes of photos that are resized and cropped. Out: ``probabilities`` (B, N) of
the classes, ``closeness`` (B) to the labelled photos, and ``nearest`` (B), the number of the nearest one.
The entry "fewset" of its metadata is the description without the numbers: classes, threshold, preprocessing.

The encoder computes in float32, the head in float64 as everywhere in fewset.
"""

import json
from typing import Any

import numpy as np

from fewset.classify.export.head_json import summary
from fewset.classify.export.tracing import encoder_graph, parts_of
from fewset.classify.heads import unit_rows
from fewset.classify.model import Learned, LinearClassifier
from fewset.classify.trust.rejection import POWER, Closeness
from fewset.core.extras import import_extra
from fewset.encoders import Encoder
from fewset.encoders.onnx_rows import IMAGES, ROWS, check_opset
from fewset.encoders.preprocessing import Preprocessing

_SMALLEST = 1e-12  # length of a row, as everywhere


def joined_graph(learned: Learned, encoder: Encoder, share: float | None) -> Any:
    """The graph (a `ModelProto`) of encoder and head together."""
    onnx: Any = import_extra("onnx", "export")
    model = onnx.compose.add_prefix(encoder_graph(encoder), "encoder/")
    check_opset(model, f"the encoder {encoder.id}")
    settings = parts_of(encoder).preprocessing
    build = _Nodes(onnx)
    build.normalise("pixels", settings, f"encoder/{IMAGES}")
    before = len(build.nodes)
    rows = build.to("Cast", f"encoder/{ROWS}", to=onnx.TensorProto.DOUBLE)
    build.classify(rows, learned.linear)
    build.compare(rows, learned.closeness)

    graph, helper, kinds = model.graph, onnx.helper, onnx.TensorProto
    nodes = [*build.nodes[:before], *graph.node, *build.nodes[before:]]
    del graph.node[:], graph.input[:], graph.output[:]
    graph.node.extend(nodes)
    graph.initializer.extend(build.weights)
    size = [settings.height, settings.width, 3]
    graph.input.append(helper.make_tensor_value_info("pixels", kinds.UINT8, ["B", *size]))
    graph.output.extend(
        [
            helper.make_tensor_value_info("probabilities", kinds.FLOAT, ["B", len(learned.linear.bias)]),
            helper.make_tensor_value_info("closeness", kinds.FLOAT, ["B"]),
            helper.make_tensor_value_info("nearest", kinds.INT64, ["B"]),
        ]
    )
    helper.set_model_props(model, {"fewset": json.dumps(summary(learned, encoder, share))})
    onnx.checker.check_model(model)
    return model


class _Nodes:
    """Nodes and weights, one after another; a value is known by its name.

    Only with operators that are the same in all versions: reductions are products with ones.
    """

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, values: Any, dtype: type = np.float64) -> str:
        name = f"head/weight{len(self.weights)}"
        array: np.ndarray = np.asarray(values, dtype=dtype, order="C")
        self.weights.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def to(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        name = output or f"head/value{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [name], **attributes))
        return name

    def normalise(self, pixels: str, settings: Preprocessing, output: str) -> None:
        factor, summand = (
            self.weight(np.reshape(values, (1, 3, 1, 1)), np.float32) for values in settings.affine()
        )
        floats = self.to("Cast", pixels, to=self.onnx.TensorProto.FLOAT)
        scaled = self.to("Mul", self.to("Transpose", floats, perm=[0, 3, 1, 2]), factor)
        self.to("Add", scaled, summand, output=output)

    def classify(self, rows: str, linear: LinearClassifier) -> None:
        """As `LinearClassifier.probabilities`."""
        dim = len(linear.shift)
        centred = self.to("Sub", self._prepared(rows, linear.power, dim), self.weight(linear.shift))
        product = self.to("MatMul", self._unit(centred, dim), self.weight(linear.weight))
        logits = self.to(
            "Div", self.to("Add", product, self.weight(linear.bias)), self.weight(linear.temperature)
        )
        self._finish("probabilities", self.to("Softmax", logits, axis=1))

    def compare(self, rows: str, closeness: Closeness) -> None:
        """As `Closeness.largest` and `Closeness.nearest`."""
        prepared = self._prepared(rows, POWER, closeness.shots.shape[1])
        one, flat = self.weight([1], np.int64), self.weight([-1], np.int64)
        best = []
        for number, items in enumerate((closeness.shots, unit_rows(closeness.sums))):
            cosines = self.to("MatMul", prepared, self.weight(items.T))
            names = [f"head/{part}{number}" for part in ("largest", "place")]
            self.nodes.append(self.onnx.helper.make_node("TopK", [cosines, one], names, axis=1))
            best.append(names)
        (shot, place), (prototype, _) = best
        self._finish("closeness", self.to("Reshape", self.to("Max", shot, prototype), flat))
        self.to("Reshape", place, flat, output="nearest")

    def _prepared(self, rows: str, power: float, dim: int) -> str:
        raised = self.to("Pow", self.to("Abs", rows), self.weight(power))
        return self._unit(self.to("Mul", self.to("Sign", rows), raised), dim)

    def _unit(self, rows: str, dim: int) -> str:
        squares = self.to("MatMul", self.to("Mul", rows, rows), self.weight(np.ones((dim, 1))))
        return self.to("Div", rows, self.to("Max", self.to("Sqrt", squares), self.weight(_SMALLEST)))

    def _finish(self, name: str, value: str) -> None:
        self.to("Cast", value, output=name, to=self.onnx.TensorProto.FLOAT)
