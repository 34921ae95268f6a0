"""A set of images that is made in no time."""

import numpy as np

from fewset.data.images.store import ImageSet, open_set, set_path, write_store


def make_tiny_set() -> ImageSet:
    """An image set "tiny": 13 / 7 / 7 classes, noisy colour patterns, 11 items of 20x20 each, two domains."""
    generator = np.random.default_rng(0)
    classes = np.arange(27)
    labels = np.repeat(classes, 11)
    patterns = generator.integers(0, 256, size=(27, 5, 5, 3)).repeat(4, axis=1).repeat(4, axis=2)
    noise = generator.normal(scale=60, size=(len(labels), 20, 20, 3))
    with write_store(
        set_path("tiny"),
        size=20,
        labels=labels,
        class_names=[f"class{number:02}" for number in classes],
        splits=np.repeat([0, 1, 2], [13, 7, 7]).repeat(11),
        domains=np.arange(len(labels)) % 2,
        domain_names=("even", "odd"),
        source="made by a test",
    ) as draft:
        draft.images[:] = np.clip(patterns[labels] + noise, 0, 255).astype(np.uint8)
    return open_set("tiny")


def spoiled_copy(images: ImageSet, name: str, rows: np.ndarray) -> ImageSet:
    """The same set under another name, with noise in place of some images."""
    with write_store(
        set_path(name),
        size=images.images.shape[1],
        labels=images.labels,
        class_names=images.class_names,
        splits=images.splits,
        domains=images.domains,
        domain_names=images.domain_names,
        source="made by a test",
    ) as draft:
        draft.images[:] = images.images
        draft.images[rows] = np.random.default_rng(1).integers(0, 256, draft.images[rows].shape)
    return open_set(name)
