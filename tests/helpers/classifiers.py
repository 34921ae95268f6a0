"""Fitted classifiers for tests of the export."""

from pathlib import Path

import numpy as np
from PIL import Image

from fewset import FewShotClassifier
from fewset.classify.embedding import chosen_encoder
from fewset.classify.export.writing import ClassifierExport
from tests.helpers.photos import CLASSES, photo, write_photos


def fitted(folder: Path, encoder: str, head: str = "auto", reject: str | None = "auto") -> FewShotClassifier:
    """A classifier of three classes of coloured noise, four photos each."""
    return FewShotClassifier(encoder, head, reject=reject, device="cpu").fit(write_photos(folder / "photos"))


def exported(classifier: FewShotClassifier) -> ClassifierExport:
    """As `fewset export` would write it, with 5 % of the classes' own photos turned away."""
    return ClassifierExport(classifier.learned_, chosen_encoder(classifier.encoder, "cpu"), 0.05)


def new_photos() -> list[Image.Image]:
    """One of each class, and one that is none of these."""
    noise = np.random.default_rng(5).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    return [*(photo(label, 90) for label in CLASSES), Image.fromarray(noise)]
