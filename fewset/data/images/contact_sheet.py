"""A contact sheet: some images of some classes of a set on one picture."""

import io
from pathlib import Path

import numpy as np
from jaxtyping import Int
from PIL import Image, ImageDraw
from PIL.PngImagePlugin import PngInfo

from fewset.core.errors import UserError
from fewset.data.images.store import SPLITS, ImageSet

_LARGEST = 96
_GAP = 4
_TEXT = 14
_MARK = "Software", "contact sheet of fewset"


def contact_sheet(images: ImageSet, classes: int = 24, per_class: int = 12) -> bytes:
    """A PNG file: a row of images for each of `classes` classes, spread evenly over the set; no chance in it.

    The classes come in the order of the splits, each with its split, name and number of images above it. The
    images of a class are spread evenly over it, and so over its domains.
    """
    numbers, first = np.unique(images.labels, return_index=True)
    by_split = numbers[np.argsort(images.splits[first], kind="stable")]
    shown = _spread(by_split, classes)
    side = min(images.images.shape[1], _LARGEST)
    cell = side + _GAP
    sheet = Image.new("RGB", (per_class * cell + _GAP, len(shown) * (cell + _TEXT) + _GAP), "white")
    draw = ImageDraw.Draw(sheet)
    for place, label in enumerate(shown):
        rows = np.flatnonzero(images.labels == label)
        top = place * (cell + _TEXT) + _GAP
        text = f"{SPLITS[images.splits[rows[0]]]}  {images.class_names[label]}  ({len(rows)})"
        draw.text((_GAP, top), text.encode("ascii", "replace"), "black")
        for column, row in enumerate(_spread(rows, per_class)):
            image = Image.fromarray(images.images[row]).resize((side, side), Image.Resampling.BILINEAR)
            sheet.paste(image, (column * cell + _GAP, top + _TEXT))
    buffer, about = io.BytesIO(), PngInfo()
    about.add_text(*_MARK)
    sheet.save(buffer, "PNG", pnginfo=about)
    return buffer.getvalue()


def check_sheet(path: Path) -> None:
    """Refuse to write a sheet over what is none: it may be a photo."""
    if not path.exists():
        return
    key, mark = _MARK
    try:
        with Image.open(path) as picture:
            earlier = picture.info.get(key) == mark
    except (OSError, ValueError, Image.DecompressionBombError):
        earlier = False
    if not earlier:
        raise UserError(f"{path} exists and is no contact sheet; choose another name")


def _spread(values: Int[np.ndarray, " values"], count: int) -> list[int]:
    """At most `count` of the values, at even distances, from the first to the last."""
    places = np.linspace(0, len(values) - 1, min(count, len(values))).round().astype(int)
    return [int(value) for value in values[places]]
