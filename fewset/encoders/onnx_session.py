"""A network in the ONNX format, opened with onnxruntime."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fewset.core.errors import UserError
from fewset.core.extras import import_extra

_FATAL = 4


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
    options.log_severity_level = _FATAL  # what is wrong is raised, too, and told in one line
    return onnxruntime.InferenceSession(model, options, providers=[provider])


def run_session(session: Any, inputs: dict[str, np.ndarray], seconds: float) -> list[np.ndarray]:
    """What the network makes of its inputs, or a TimeoutError when it takes longer: it may have loops."""
    options = import_extra("onnxruntime", "onnx").RunOptions()
    options.log_severity_level = _FATAL

    def stop() -> None:
        options.terminate = True

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        outputs: list[np.ndarray] = session.run(None, inputs, options)
    except Exception:
        if options.terminate:
            raise TimeoutError(f"more than {seconds:.0f} s") from None
        raise
    finally:
        timer.cancel()
    return outputs
