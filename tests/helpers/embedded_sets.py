"""Labelled sets to measure on: clusters of rows without images, and folders of photos."""

from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.classifier.embedded import EmbeddedSet
from fewset.classify.model import EncoderStamp


def embedded(
    seed: int = 0, classes: int = 13, each: int = 11, dim: int = 29, origins: int = 0
) -> EmbeddedSet:
    """Rows like an encoder's, hard enough that heads err; with `origins` of each class where it is given."""
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), each)
    means = generator.exponential(size=(classes, dim))
    rows = means[labels] * generator.exponential(size=(len(labels), dim))
    order = generator.permutation(len(labels))
    shared = labels * origins + np.tile(np.arange(each) % max(origins, 1), classes)
    return EmbeddedSet(
        rows.astype(np.float32)[order],
        labels[order],
        tuple(f"class {number}" for number in range(classes)),
        np.zeros(len(labels), dtype=np.uint64),
        shared[order] if origins else None,
        "0" * 64,
        EncoderStamp("none", "0" * 64),
    )


def write_many_classes(folder: Path, classes: int, each: int) -> Path:
    """A folder a class; the photos of a class have its colours, with noise."""
    for label in range(classes):
        generator = np.random.default_rng(label)
        mean = generator.uniform(60, 200, size=(4, 4, 3)).repeat(4, axis=0).repeat(4, axis=1)
        (folder / f"class {label}").mkdir(parents=True)
        for number in range(each):
            pixels = generator.normal(mean, 60).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"class {label}" / f"{number}.png")
    return folder
