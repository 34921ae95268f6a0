"""Photos and an encoder for tests: coloured noise, and means of its pixels."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

FORMATS = {"jpg": "JPEG", "png": "PNG", "webp": "WEBP", "gif": "GIF", "tif": "TIFF", "bmp": "BMP",
           "heic": "HEIF", "avif": "AVIF"}  # fmt: skip
CLASSES = {"blue sky": (40, 70, 220), "grass": (50, 190, 60), "brick": (190, 60, 40)}


@dataclass(frozen=True)
class TinyEncoder:
    """The mean colours of 4 x 4 cells, and how much they vary: 96 numbers, none below 0."""

    id: str = "tiny"
    digest: str = "d1" * 32
    dim: int = 96
    input_size: int = 16

    @property
    def device(self) -> str:
        return "cpu"

    def __call__(self, images: Sequence[Image.Image]) -> np.ndarray:
        rows = np.zeros((len(images), self.dim), dtype=np.float32)
        for number, image in enumerate(images):
            cells = np.asarray(image.resize((16, 16))).reshape(4, 4, 4, 4, 3).astype(np.float32)
            rows[number] = np.concatenate(
                [cells.mean(axis=(1, 3)).flatten(), cells.std(axis=(1, 3)).flatten()]
            )
        return rows


def photo(label: str, seed: int) -> Image.Image:
    """A photo of a class: its colour in patches of different brightness, with noise."""
    generator = np.random.default_rng([seed, list(CLASSES).index(label)])
    brightness = generator.uniform(0.2, 1.4, size=(4, 5, 1)).repeat(8, axis=0).repeat(8, axis=1)
    pixels = generator.normal(brightness * CLASSES[label], 20)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


@cache
def photo_files() -> dict[str, bytes]:
    """A photo in each format that Pillow reads and writes, by the usual suffix; turned by its EXIF data."""
    import pillow_heif

    pillow_heif.register_heif_opener()
    exif = Image.Exif()
    exif[0x0112] = 6
    found = {}
    for suffix, kind in FORMATS.items():
        buffer = io.BytesIO()
        options: dict[str, Any] = {} if kind == "BMP" else {"exif": exif}
        if kind == "GIF":  # an animation
            options |= {"save_all": True, "append_images": [photo("brick", 0)]}
        photo("grass", 0).save(buffer, kind, **options)
        found[suffix] = buffer.getvalue()
    return found


def write_photos(folder: Path, shots: int = 4, first: int = 0) -> Path:
    """A folder with a folder a class."""
    for label in CLASSES:
        (folder / label).mkdir(parents=True, exist_ok=True)
        for number in range(first, first + shots):
            photo(label, number).save(folder / label / f"{number}.png")
    return folder


PLUGIN = """
from fewset.encoders import register_encoder
from tests.helpers.photos import TinyEncoder

@register_encoder("tiny")
def tiny(device):
    return TinyEncoder()
"""
"""A file for `--plugin` that makes the encoder known."""
