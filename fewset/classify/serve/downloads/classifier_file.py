"""The classifier as one file, which `fewset predict` and Python read."""

from pathlib import Path

from fewset.classify.saving import save_classifier
from fewset.classify.serve.downloads import register_download
from fewset.classify.serve.workbench import Moment


@register_download("classifier")
def classifier_file(moment: Moment, folder: Path) -> Path:
    """Download classifier."""
    path = folder / "my.fewset"
    save_classifier(moment.ready(), moment.album.share, path)
    return path
