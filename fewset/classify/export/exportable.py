"""What `fewset export` is given: the file of a classifier, or a model by its path or name."""

from pathlib import Path

from fewset.classify.export.writing import ClassifierExport, ModelExport
from fewset.classify.file import is_classifier, load_classifier
from fewset.classify.transformer import encoder_of
from fewset.experiments.weights import load
from fewset.experiments.zoo import released_models

_DEVICE = "cpu"  # files are the same wherever they are written


def is_model(source: Path) -> bool:
    """Whether it is a run directory, a weights file or a released model; any other file is a classifier."""
    weights = source.suffix == ".safetensors" and not is_classifier(source)
    return source.is_dir() or weights or str(source) in released_models()


def open_model(source: Path) -> ModelExport:
    """A model, ready to be written."""
    return ModelExport(load(source))


def open_classifier(source: Path, encoder: str | None = None) -> ClassifierExport:
    """A classifier, ready to be written; `encoder`: where that is, if not under the name in the file."""
    learned, share = load_classifier(source)
    return ClassifierExport(learned, encoder_of(learned, encoder, _DEVICE), share)
