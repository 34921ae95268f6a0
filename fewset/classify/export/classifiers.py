"""A classifier for other programs: `head.json` beside the encoder, and one ONNX graph of both.

`head.json` is a table. An array in it is a table with ``dtype``, ``shape`` and ``data``: its values in
base64, little-endian, row by row.

=================  ========================================================================================
``classes``        the labels, in the order of the probabilities
``none``           the answer for a photo that is none of these: where its closeness is below
                   ``threshold`` (null where that is unknown); ``reject``: whether the classifier does so by
                   default
``encoder``        file, names of its input and output, digest
``preprocessing``  resizing, cropping and normalisation of a photo
``head``           power, shift, weight, bias, temperature
``closeness``      power, strength and weight of the ridge regression that is part of the closeness
``refit``          power, strength and scale of the ridge regression by which new classes may be added
``support``        the labelled photos: features, label (an index into ``classes``), name, thumbnail (JPEG)
=================  ========================================================================================

The graph takes ``pixels`` (B, H, W, 3), bytes of photos that are resized and cropped. It gives
``probabilities`` (B, N) of the classes, ``closeness`` (B) to the labelled photos, and ``nearest`` (B), the
index of the nearest one. The entry "fewset" of its metadata has the first entries of `head.json`, up to
``preprocessing``. The encoder computes in float32, the head in float64 as everywhere in fewset.
"""

import json
from base64 import b64encode
from math import isfinite
from typing import Any

import numpy as np

from fewset import __version__
from fewset.classify.export.encoders import encoder_graph, parts_of
from fewset.classify.heads import ridge
from fewset.classify.labels import none_label
from fewset.classify.model import Learned
from fewset.classify.trust.rejection import POWER, SHARE, STRENGTH
from fewset.core.extras import import_extra
from fewset.core.names import one_line
from fewset.encoders import Encoder
from fewset.encoders.onnx_rows import IMAGES, ROWS, check_opset
from fewset.encoders.preprocessing import FILTERS

FORMAT = 2
ENCODER_FILE = "encoder.onnx"
_SETTINGS = ("height", "width", "resize", "least", "scale", "mean", "std")
_BEFORE = """
before (uint8[B, H, W, 3] pixels) => (float[B, 3, H, W] encoder_images) {
    floats = Cast <to = 1> (pixels)
    planes = Transpose <perm = [0, 3, 1, 2]> (floats)
    scaled = Mul (planes, factor)
    encoder_images = Add (scaled, summand)
}
"""
# `LinearClassifier.probabilities`, `Closeness.of` and `Closeness.nearest`, with operators that are the
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

    close_raised = Pow (sizes, close_power)
    close_signed = Mul (signs, close_raised)
    compared = LpNormalization <axis = 1, p = 2> (close_signed)
    to_shots = MatMul (compared, shots)
    to_prototypes = MatMul (compared, prototypes)
    values = MatMul (compared, close_weight)
    shot, place = TopK <axis = 1> (to_shots, one)
    prototype, ignored_prototype = TopK <axis = 1> (to_prototypes, one)
    value, ignored_value = TopK <axis = 1> (values, one)
    largest = Max (shot, prototype)
    both = Add (largest, value)
    mean = Mul (both, half)
    flat = Reshape (mean, all)
    closeness = Cast <to = 1> (flat)
    nearest = Reshape (place, all)
}
"""


def head_description(learned: Learned, encoder: Encoder, share: float | None) -> dict[str, Any]:
    """The whole of `head.json`."""
    support, linear = learned.support, learned.linear
    return {
        **summary(learned, encoder, share),
        "head": {
            "name": learned.head,
            "power": linear.power,
            **{name: _array(getattr(linear, name)) for name in ("shift", "weight", "bias")},
            "temperature": linear.temperature,
        },
        "closeness": {"power": POWER, "strength": STRENGTH, "weight": _array(learned.closeness.weight)},
        "refit": {"power": ridge.RidgeHead.power, "strength": ridge.STRENGTH, "scale": ridge.SCALE},
        "support": {
            "features": _array(support.features),
            "labels": support.labels.tolist(),
            "names": [_file_name(name) for name in support.names],
            "thumbnails": [b64encode(thumbnail).decode() for thumbnail in support.thumbnails],
        },
    }


def summary(learned: Learned, encoder: Encoder, share: float | None) -> dict[str, Any]:
    """The entries without the arrays, which are the metadata of a joined file."""
    limit = learned.threshold(SHARE if share is None else share)
    settings = parts_of(encoder).preprocessing
    return {
        "format": FORMAT,
        "fewset": __version__,
        "classes": learned.support.classes.tolist(),
        "none": none_label(learned.support.classes),
        "reject": share is not None,
        "threshold": limit if isfinite(limit) else None,
        "encoder": {
            "file": ENCODER_FILE,
            "input": IMAGES,
            "output": ROWS,
            "name": _file_name(encoder.id),
            "digest": encoder.digest,
        },
        "preprocessing": {
            "filter": next(name for name, number in FILTERS.items() if number == settings.resample),
            **{name: getattr(settings, name) for name in _SETTINGS},
        },
    }


def _array(values: np.ndarray) -> dict[str, Any]:
    data = b64encode(values.astype(values.dtype.newbyteorder("<")).tobytes()).decode()
    return {"dtype": values.dtype.name, "shape": list(values.shape), "data": data}


def _file_name(path: str) -> str:
    """The last part of a path: exports do not name directories of this machine."""
    return one_line(path.replace("\\", "/").rpartition("/")[2])


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
        "shots": labelled.shots[np.argsort(learned.support.order)].T,
        "prototypes": labelled.prototypes.T,
        "close_power": np.float64(POWER),
        "close_weight": labelled.weight,
        "half": np.float64(0.5),
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
