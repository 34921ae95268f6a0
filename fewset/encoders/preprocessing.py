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

from fewset.core.errors import UserError
from fewset.io.reading import open_file
from fewset.models.channels import Channels

PilImage = Any
"""A `PIL.Image.Image`, upright."""

FILTERS = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}
"""Pillow's indices of its filters; all but the first are antialiased."""

BILINEAR, BICUBIC = FILTERS["bilinear"], FILTERS["bicubic"]

_MODES = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "HSV"}
_MODES_OF_16_BITS = {"I;16", "I;16L", "I;16B", "I;16N"}
_MOST_PIXELS = 4096  # a side of what a network takes
_LONGEST = 8  # times the shorter side; more is cut off before resizing, or memory would be unbounded


@dataclass(frozen=True)
class Preprocessing:
    """The steps from an image to the input of a network; they belong to the weights.

    `resize` is the number of pixels that the shorter side becomes, or the height and width that the whole
    image is stretched to. Then the centre of `height` by `width` is cropped. Pixels times `scale`, less
    `mean`, divided by `std`, are the network's input.
    """

    height: int
    width: int
    resize: int | tuple[int, int]
    mean: Channels
    std: Channels
    resample: int = BICUBIC
    scale: float = 1 / 255

    def __post_init__(self) -> None:
        if not (0 < self.height <= self._least[0] and 0 < self.width <= self._least[1]):
            raise UserError(
                f"the crop is {self.height} x {self.width} pixels, but images are resized to {self.resize}"
            )
        if max(self._least) > _MOST_PIXELS:
            raise UserError(f"images are resized to {self.resize} pixels, expected {_MOST_PIXELS} at most")
        if self.resample not in FILTERS.values():
            raise UserError(
                f"the resampling filter is {self.resample!r}, expected Pillow's index of one, 0 to 5"
            )
        if min(*self.std, self.scale) <= 0:
            raise UserError(f"deviations {self.std}, scale {self.scale}: expected values above 0")

    def pixels(self, image: PilImage) -> UInt8[np.ndarray, "height width 3"]:
        """The pixels of one image, whatever its mode and size, before their normalisation."""
        image = to_rgb(image)
        if isinstance(self.resize, int):
            image = _without_far_ends(image)
        resized = image.resize(self._resized(*image.size), self.resample)
        left, top = (resized.width - self.width) // 2, (resized.height - self.height) // 2
        return np.asarray(resized.crop((left, top, left + self.width, top + self.height)))

    @property
    def least(self) -> int:
        """The least pixels that the shorter side of an image should have; smaller images are enlarged."""
        return min(self._least)

    @property
    def _least(self) -> tuple[int, int]:
        return (self.resize, self.resize) if isinstance(self.resize, int) else self.resize

    def _resized(self, width: int, height: int) -> tuple[int, int]:
        if not isinstance(self.resize, int):
            return self.resize[1], self.resize[0]
        side = min(width, height)
        return self.resize * width // side, self.resize * height // side

    def affine(self) -> tuple[list[float], list[float]]:
        """The factor and the summand of each channel that normalise pixels of 0 to 255."""
        factors = [self.scale / std for std in self.std]
        return factors, [-mean / std for mean, std in zip(self.mean, self.std, strict=True)]

    def digest(self, weights: Iterable[Path]) -> str:
        """The sha256 of these settings and of the files with the weights."""
        total = sha256(json.dumps(asdict(self), sort_keys=True).encode())
        for path in weights:
            with open_file(path) as file:
                while block := file.read(2**20):
                    total.update(block)
        return total.hexdigest()


def to_rgb(image: PilImage) -> PilImage:
    """The image as RGB: transparency over white, 16 bits scaled to 8."""
    if image.mode == "RGB" and not image.has_transparency_data:
        return image
    if image.mode in _MODES_OF_16_BITS:
        # Pillow's own conversion clips at 255 instead of scaling.
        image = image.convert("I").point(lambda value: value * (255 / 65535) + 0.5).convert("L")
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
