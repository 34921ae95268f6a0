"""Networks that have an ONNX form: one input, ``images``, and one output, ``rows``, whoever wrote them."""

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from fewset.core.errors import UserError
from fewset.core.extras import import_extra

IMAGES, ROWS = "images", "rows"
OLDEST_OPSET = 11
"""The operators that files are put together with are all in this version."""


@runtime_checkable
class OnnxForm(Protocol):
    """A network that is, or was made into, an ONNX file."""

    def onnx_model(self) -> bytes:
        """The file: normalised images (B, 3, H, W) in, rows (B, D) out."""


def uniform_file(path: Path, output: str, pooled: bool) -> bytes:
    """A file of others with its input called `images` and one output, `rows`: `output`, or its average.

    Weights in a second file become part of it.
    """
    onnx: Any = import_extra("onnx", "onnx")
    model = onnx.compose.add_prefix(onnx.load(path), "encoder/")
    graph, helper = model.graph, onnx.helper
    check_opset(model, str(path))
    taken = {weight.name for weight in graph.initializer}  # old files list these as inputs, too
    (image,) = (value for value in graph.input if value.name not in taken)
    batch = image.type.tensor_type.shape.dim[0]
    if batch.HasField("dim_value") and batch.dim_value != 1:
        raise UserError(
            f"{path} takes {batch.dim_value} images at once, no more and no less; write it with a batch of "
            "any size"
        )
    graph.node.insert(0, helper.make_node("Identity", [IMAGES], [image.name]))
    image.name = IMAGES
    rows = f"encoder/{output}"
    if pooled:
        graph.node.append(helper.make_node("GlobalAveragePool", [rows], ["pooled"]))
        rows = "pooled"
    graph.node.append(helper.make_node("Flatten", [rows], [ROWS]))
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info(ROWS, onnx.TensorProto.FLOAT, None))
    return serialised(model, str(path))


def check_opset(model: Any, what: str) -> None:
    """Refuse a graph of operators that are too old to be joined with others."""
    version = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 0)
    if version < OLDEST_OPSET:
        raise UserError(
            f"{what} has operators of version {version}, expected {OLDEST_OPSET} or newer; convert it with "
            "onnx.version_converter"
        )


def serialised(model: Any, what: str) -> bytes:
    """The bytes of a file; the format ends at 2 GB."""
    try:
        file: bytes = model.SerializeToString()
    except Exception as error:  # protobuf's errors have no common class
        raise UserError(f"{what} does not fit into one ONNX file ({error}); take a smaller encoder") from None
    return file
