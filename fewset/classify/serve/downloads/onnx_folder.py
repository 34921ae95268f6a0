"""The classifier for programs without torch."""

from pathlib import Path

from fewset.classify.serve.downloads import register_download
from fewset.classify.serve.exporting import exported
from fewset.classify.serve.workbench import Moment
from fewset.core.extras import imports


def onnx_folder(moment: Moment, folder: Path) -> Path:
    """Download ONNX."""
    path = folder / "my-onnx"
    exported(moment).write_folder(path, joined=True)
    return path


if imports("onnx", "onnxruntime"):
    register_download("onnx")(onnx_folder)
