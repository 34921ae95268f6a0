"""From a photograph to the pixels that a network was trained on: RGB, resized, cropped, normalised.

Works with the methods of a Pillow image alone, so that Pillow is imported only where files are read.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from fewset.runtime.errors import UserError

PilImage = Any
"""A `PIL.Image.Image`, upright."""

Channels = tuple[float, float, float]

NEAREST, LANCZOS, BILINEAR, BICUBIC, BOX, HAMMING = range(6)
"""Pillow's numbers for its filters; all but the first are antialiased."""

_MODES = {"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "HSV"}
_MODES_OF_16_BITS = {"I;16", "I;16L", "I;16B", "I;16N"}
_LONGEST = (
    8  # times the shorter side: what is beyond is cut off before resizing, or memory would be unbounded
)


@dataclass(frozen=True)
class Preprocessing:
    """What is done to an image before a network sees it; it belongs to the weights.

    With `shorter` the shorter side is resized to so many pixels, and the centre of `height` by `width` is
    cropped; without, the whole image is stretched to that size. Pixels times `scale`, less `mean`, divided
    by `std`, are the network's input.
    """

    height: int
    width: int
    mean: Channels
    std: Channels
    shorter: int | None = None
    resample: int = BICUBIC
    scale: float = 1 / 255

    def __post_init__(self) -> None:
        sizes = (self.height, self.width, *([] if self.shorter is None else [self.shorter]))
        if min(sizes) < 1 or (self.shorter is not None and self.shorter < max(self.height, self.width)):
            raise UserError(
                f"images are resized to {self.shorter} and cropped to {self.height} x {self.width} pixels: "
                "expected at least 1, and no crop beyond the resized image"
            )
        if self.resample not in range(6):
            raise UserError(
                f"the resampling filter is {self.resample!r}, expected Pillow's number of it, 0 to 5"
            )
        if not all(value > 0 for value in (*self.std, self.scale)):
            raise UserError(f"the deviations {self.std} and the scale {self.scale} must be above 0")

    def pixels(self, image: PilImage) -> UInt8[np.ndarray, "height width 3"]:
        """The pixels of one image, whatever its mode and size, before their normalisation."""
        image = to_rgb(image)
        if self.shorter is None:
            return np.asarray(image.resize((self.width, self.height), self.resample))
        image = _without_far_ends(image)
        side = min(image.size)
        resized = image.resize(tuple(self.shorter * length // side for length in image.size), self.resample)
        left, top = (resized.width - self.width) // 2, (resized.height - self.height) // 2
        return np.asarray(resized.crop((left, top, left + self.width, top + self.height)))

    def affine(self) -> tuple[Channels, Channels]:
        """The factor and the summand a channel that normalise pixels of 0 to 255."""
        red, green, blue = zip(self.mean, self.std, strict=True)
        factors = tuple(self.scale / std for _, std in (red, green, blue))
        summands = tuple(-mean / std for mean, std in (red, green, blue))
        return factors, summands  # type: ignore[return-value]

    def digest(self, weights: Iterable[Path]) -> str:
        """The sha256 of these settings and of the files with the weights."""
        total = sha256(json.dumps(asdict(self), sort_keys=True).encode())
        for path in weights:
            with path.open("rb") as file:
                while block := file.read(2**20):
                    total.update(block)
        return total.hexdigest()


def to_rgb(image: PilImage) -> PilImage:
    """The image as RGB: transparency over white, 16 bits scaled to 8."""
    if image.mode == "RGB" and not image.has_transparency_data:
        return image
    if image.mode in _MODES_OF_16_BITS:
        # Pillow's own conversion clips at 255 instead of scaling.
        image = image.point([(255 * value + 32767) // 65535 for value in range(65536)], "L")
    if image.mode not in _MODES:
        raise UserError(f"pixels of type {image.mode!r}; expected grey, RGB or CMYK of 8 or 16 bits")
    if not image.has_transparency_data:
        return image.convert("RGB")
    image = image.convert("RGBA")
    canvas = image.convert("RGB")
    canvas.paste("white", (0, 0, *canvas.size))
    canvas.paste(image, (0, 0), image)
    return canvas


def _without_far_ends(image: PilImage) -> PilImage:
    width, height = image.size
    limit = _LONGEST * min(width, height)
    if max(width, height) <= limit:
        return image
    left, top = max(0, width - limit) // 2, max(0, height - limit) // 2
    return image.crop((left, top, left + min(width, limit), top + min(height, limit)))
