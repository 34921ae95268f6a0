"""A network in the ONNX format, opened with onnxruntime."""

from pathlib import Path
from typing import Any

import torch

from fewset.runtime.errors import UserError
from fewset.runtime.extras import import_extra


def open_session(model: Path | bytes, device: torch.device, threads: int | None = None) -> Any:
    """The session that computes an ONNX file, or the bytes of one, with `threads` or as many as torch."""
    onnxruntime = import_extra("onnxruntime", "onnx")
    provider = "CUDAExecutionProvider" if device.type == "cuda" else "CPUExecutionProvider"
    if provider not in onnxruntime.get_available_providers():
        raise UserError(f"onnxruntime has no {provider} here: pip install onnxruntime-gpu, or --device cpu")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or torch.get_num_threads()
    # Threads that spin while they wait take the processor from those that decode the next photos.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=[provider])
