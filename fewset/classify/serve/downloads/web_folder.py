"""The classifier as a page that runs in any browser."""

from pathlib import Path

from fewset.classify.export.writing import find_runtime
from fewset.classify.serve.downloads import register_download
from fewset.classify.serve.exporting import exported
from fewset.classify.serve.workbench import Moment
from fewset.core.extras import imports


def web_folder(moment: Moment, folder: Path) -> Path:
    """Download web page."""
    path = folder / "my-page"
    exported(moment).write_page(path, find_runtime())
    return path


if imports("onnx", "onnxruntime"):
    register_download("web")(web_folder)
