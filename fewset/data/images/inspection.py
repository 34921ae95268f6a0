"""What `fewset data verify` and `info` show of a set: warnings, and a contact sheet of images."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int
from PIL import Image, ImageDraw

from fewset.data.images.decoding import encode
from fewset.data.images.store import SPLITS, ImageSet

_LARGEST, _GAP, _TEXT = 96, 4, 14  # pixels on a contact sheet: of an image, between images, of a line of text


class Known(NamedTuple):
    """The expected properties of a well-known set."""

    classes: tuple[int, int, int]
    """For training, validation and testing."""
    items: int
    each: int | None = None
    """Items of each class, if all have the same number."""
    side: int = 0
    """The least median of the shorter sides of the original images, in pixels."""


KNOWN = {
    "miniimagenet": Known((64, 16, 20), 60_000, each=600, side=92),
    "tieredimagenet": Known((351, 97, 160), 779_165),
    "cub": Known((100, 50, 50), 11_788),
    "omniglot": Known((4 * 1028, 4 * 172, 4 * 423), 4 * 1623 * 20, each=20, side=105),
}


def warnings_for(images: ImageSet) -> list[str]:
    """What is suspicious about a set, one line each.

    A set is recognised by the kind that it was imported as, or by its name.
    """
    manifest = images.manifest
    known = KNOWN.get(manifest["source"].split(" ")[0], KNOWN.get(images.name))
    return [*(_wrong_counts(images, known) if known else []), *_small(manifest, known)]


def _wrong_counts(images: ImageSet, known: Known) -> list[str]:
    lines = []
    classes = tuple(images.manifest["counts"][split]["classes"] for split in SPLITS)
    if classes != known.classes:
        got, expected = (" / ".join(f"{count:,}" for count in counts) for counts in (classes, known.classes))
        lines.append(f"{got} classes (train / val / test), expected {expected}")
    if len(images.labels) != known.items:
        lines.append(f"{len(images.labels):,} items, expected {known.items:,}")
    if known.each:
        counts = np.bincount(images.labels, minlength=len(images.class_names))
        wrong = [images.class_names[label] for label in np.flatnonzero(counts != known.each)]
        if wrong:
            names = ", ".join(wrong[:5]) + (", …" if len(wrong) > 5 else "")
            lines.append(f"{len(wrong)} classes do not have {known.each} items: {names}")
    return lines


def _small(manifest: dict[str, Any], known: Known | None) -> list[str]:
    size = manifest.get("source_size")
    if size is None:
        return []
    if known and size["median"] < known.side:
        return [
            f"the source images are {size['median']} px (median of the shorter side): copies, not the "
            "originals, which published results use; expect accuracies a point or so lower"
        ]
    if size["median"] < manifest["size"]:
        return [
            f"most source images are smaller ({size['median']} px, median of the shorter side) than the "
            f"stored {manifest['size']} px: they were enlarged"
        ]
    return []


def contact_sheet(images: ImageSet, classes: int = 24, per_class: int = 12) -> bytes:
    """A PNG file with a row of images for each of `classes` classes, spread evenly over the set.

    The classes are in the order of the splits, each under its split, name and number of images. The images of
    a class are spread evenly over it, and so over its domains.
    """
    labels, first = np.unique(images.labels, return_index=True)
    by_split = labels[np.argsort(images.splits[first], kind="stable")]
    shown = _spread(by_split, classes)
    side = min(images.size, _LARGEST)
    cell = side + _GAP
    sheet = Image.new("RGB", (per_class * cell + _GAP, len(shown) * (cell + _TEXT) + _GAP), "white")
    draw = ImageDraw.Draw(sheet)
    for line, label in enumerate(shown):
        rows = np.flatnonzero(images.labels == label)
        top = line * (cell + _TEXT) + _GAP
        text = f"{SPLITS[images.splits[rows[0]]]}  {images.class_names[label]}  ({len(rows)})"
        draw.text((_GAP, top), text.encode("ascii", "replace"), "black")
        for column, row in enumerate(_spread(rows, per_class)):
            image = Image.fromarray(images.images[row]).resize((side, side), Image.Resampling.BILINEAR)
            sheet.paste(image, (column * cell + _GAP, top + _TEXT))
    return encode(np.asarray(sheet), "PNG")


def _spread(values: Int[np.ndarray, " values"], count: int) -> list[int]:
    """At most `count` of the values, at even distances, from the first to the last."""
    places = np.linspace(0, len(values) - 1, min(count, len(values))).round().astype(int)
    return [int(value) for value in values[places]]
