"""Networks in the ONNX format with one input, ``images``, and one output, ``rows``."""

from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from fewset.compute.machine import computing_threads
from fewset.core.errors import UserError
from fewset.core.extras import import_extra

IMAGES, ROWS = "images", "rows"
OLDEST_OPSET = 11
"""The oldest version that has all operators which fewset adds."""

_FATAL = 4


@runtime_checkable
class OnnxForm(Protocol):
    """A network that can be written as an ONNX file."""

    def onnx_model(self) -> bytes:
        """The file: normalised images (B, 3, H, W) in, rows (B, D) out."""


def uniform_file(path: Path, output: str, pooled: bool) -> bytes:
    """A file with one input `images` and one output `rows`: `output`, or its average over positions.

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
            f"{path} takes exactly {batch.dim_value} images at once; write it with a batch of any size"
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
    """Raise if the operators of a graph are too old to be joined with others."""
    version = next((each.version for each in model.opset_import if each.domain in ("", "ai.onnx")), 0)
    if version < OLDEST_OPSET:
        raise UserError(f"{what} has operators of version {version}, expected {OLDEST_OPSET} or newer")


def serialised(model: Any, what: str) -> bytes:
    """The bytes of a file; the format allows up to 2 GB."""
    try:
        file: bytes = model.SerializeToString()
    except Exception as error:  # protobuf's errors have no common class
        raise UserError(f"{what} does not fit into one ONNX file ({error}); take a smaller encoder") from None
    return file


def open_session(model: Path | bytes, device: str, threads: int | None = None) -> Any:
    """The session for an ONNX file, or the bytes of one, with `threads` or as many threads as torch."""
    onnxruntime = import_extra("onnxruntime", "onnx")
    provider = "CUDAExecutionProvider" if device.startswith("cuda") else "CPUExecutionProvider"
    if provider not in onnxruntime.get_available_providers():
        raise UserError(f"onnxruntime has no {provider} here: pip install onnxruntime-gpu, or --device cpu")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or computing_threads()
    # Threads that spin while they wait would slow those that decode the next photos.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = _FATAL  # errors are raised as well
    return onnxruntime.InferenceSession(model, options, providers=[provider])
