"""What well-known sets must look like, to warn of one that does not."""

from typing import Any, NamedTuple

import numpy as np

from fewset.data.images.store import SPLITS, ImageSet


class Known(NamedTuple):
    classes: tuple[int, int, int]
    """For training, validation and testing."""
    items: int
    each: int | None = None
    """Items of each class, where all have the same number."""
    side: int = 0
    """Pixels that the shorter side of half the original images has at least."""


KNOWN = {
    "miniimagenet": Known((64, 16, 20), 60_000, each=600, side=92),
    "tieredimagenet": Known((351, 97, 160), 779_165),
    "cub": Known((100, 50, 50), 11_788),
    "omniglot": Known((4 * 1028, 4 * 172, 4 * 423), 4 * 1623 * 20, each=20, side=105),
}


def warnings_for(images: ImageSet) -> list[str]:
    """What is suspicious about a set, a line each; no line for a set that is as it should be.

    A set is known by the kind that it was imported as, or by its name.
    """
    manifest = images.manifest
    known = KNOWN.get(manifest["source"].split(" ")[0], KNOWN.get(images.name))
    return [*_overlap(images), *(_wrong_counts(images, known) if known else []), *_small(manifest, known)]


def _overlap(images: ImageSet) -> list[str]:
    pairs = np.unique(np.stack([images.labels, images.splits]), axis=1)
    labels, splits = np.unique(pairs[0], return_counts=True)
    shared = [images.class_names[label] for label in labels[splits > 1]]
    if not shared:
        return []
    return [f"{len(shared)} classes are in more than one split: {_first(shared)}"]


def _wrong_counts(images: ImageSet, known: Known) -> list[str]:
    lines = []
    classes = tuple(images.manifest["counts"][split]["classes"] for split in SPLITS)
    if classes != known.classes:
        lines.append(f"{_slashes(classes)} classes (train / val / test), expected {_slashes(known.classes)}")
    if len(images.labels) != known.items:
        lines.append(f"{len(images.labels):,} items, expected {known.items:,}")
    if known.each:
        counts = np.bincount(images.labels, minlength=len(images.class_names))
        wrong = [images.class_names[label] for label in np.flatnonzero(counts != known.each)]
        if wrong:
            lines.append(f"{len(wrong)} classes have not {known.each} items: {_first(wrong)}")
    return lines


def _small(manifest: dict[str, Any], known: Known | None) -> list[str]:
    found = manifest.get("source_size")  # sets of earlier versions do not say
    if found is None:
        return []
    if known and found["median"] < known.side:
        return [
            f"the source images are {found['median']} px (median of the shorter side): copies, not the "
            "originals, which published results use; expect accuracies a point or so lower"
        ]
    if found["median"] < manifest["size"]:
        return [
            f"most source images are smaller ({found['median']} px, median of the shorter side) than the "
            f"stored {manifest['size']} px: they were enlarged"
        ]
    return []


def _slashes(numbers: tuple[int, ...]) -> str:
    return " / ".join(f"{number:,}" for number in numbers)


def _first(names: list[str]) -> str:
    return ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
