"""A classifier as one ONNX graph, from pixels to probabilities.

In: ``pixels`` (B, H, W, 3), bytes of photos that are resized and cropped. Out: ``probabilities`` (B, N) of
the classes, ``closeness`` (B) to the labelled photos, and ``nearest`` (B), the number of the nearest one.
The entry "fewset" of its metadata has the classes, the threshold and the preprocessing, as `head.json`.

The encoder computes in float32, the head in float64 as everywhere in fewset.
"""

import json
from typing import Any

import numpy as np

from fewset.classify.export.head_json import summary
from fewset.classify.export.tracing import encoder_graph, parts_of
from fewset.classify.heads import unit_rows
from fewset.classify.model import Learned
from fewset.core.extras import import_extra
from fewset.encoders import Encoder
from fewset.encoders.onnx_rows import check_opset

_BEFORE = """
before (uint8[B, H, W, 3] pixels) => (float[B, 3, H, W] encoder_images) {
    floats = Cast <to = 1> (pixels)
    planes = Transpose <perm = [0, 3, 1, 2]> (floats)
    scaled = Mul (planes, factor)
    encoder_images = Add (scaled, summand)
}
"""
# `LinearClassifier.probabilities`, `Closeness.largest` and `Closeness.nearest`, with operators that are the
# same in all versions from 11 on.
_AFTER = """
after (float[B, D] encoder_rows) => (float[B, N] probabilities, float[B] closeness, int64[B] nearest) {
    rows = Cast <to = 11> (encoder_rows)
    signs = Sign (rows)
    sizes = Abs (rows)
    raised = Pow (sizes, power)
    signed = Mul (signs, raised)
    prepared = LpNormalization <axis = 1, p = 2> (signed)
    shifted = Sub (prepared, shift)
    centred = LpNormalization <axis = 1, p = 2> (shifted)
    product = MatMul (centred, weight)
    biased = Add (product, bias)
    logits = Div (biased, temperature)
    shares = Softmax <axis = 1> (logits)
    probabilities = Cast <to = 1> (shares)

    directions = LpNormalization <axis = 1, p = 2> (rows)
    to_shots = MatMul (directions, shots)
    to_prototypes = MatMul (directions, prototypes)
    shot, place = TopK <axis = 1> (to_shots, one)
    prototype, ignored = TopK <axis = 1> (to_prototypes, one)
    largest = Max (shot, prototype)
    flat = Reshape (largest, all)
    closeness = Cast <to = 1> (flat)
    nearest = Reshape (place, all)
}
"""


def joined_graph(learned: Learned, encoder: Encoder, share: float | None) -> Any:
    """The graph (a `ModelProto`) of encoder and head together."""
    onnx: Any = import_extra("onnx", "export")
    model = onnx.compose.add_prefix(encoder_graph(encoder), "encoder_")
    check_opset(model, f"the encoder {encoder.id}")
    settings, linear, labelled = parts_of(encoder).preprocessing, learned.linear, learned.closeness
    factor, summand = (np.reshape(values, (1, 3, 1, 1)).astype(np.float32) for values in settings.affine())
    values = {
        "factor": factor,
        "summand": summand,
        "power": np.float64(linear.power),
        "shift": linear.shift,
        "weight": linear.weight,
        "bias": linear.bias,
        "temperature": np.float64(linear.temperature),
        "shots": labelled.shots.T,
        "prototypes": unit_rows(labelled.sums).T,
        "one": np.array([1]),
        "all": np.array([-1]),
    }
    before, after = (onnx.parser.parse_graph(text) for text in (_BEFORE, _AFTER))
    nodes = [*before.node, *model.graph.node, *after.node]
    before.input[0].type.tensor_type.shape.dim[1].dim_value = settings.height
    before.input[0].type.tensor_type.shape.dim[2].dim_value = settings.width
    after.output[0].type.tensor_type.shape.dim[1].dim_value = len(linear.bias)
    del model.graph.node[:], model.graph.input[:], model.graph.output[:]
    model.graph.node.extend(nodes)
    model.graph.input.extend(before.input)
    model.graph.output.extend(after.output)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.asarray(value, order="C"), name) for name, value in values.items()
    )
    onnx.helper.set_model_props(model, {"fewset": json.dumps(summary(learned, encoder, share))})
    onnx.checker.check_model(model)
    return model
