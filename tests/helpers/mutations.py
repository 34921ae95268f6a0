"""Damaged and hostile bytes from good ones: the same seed, the same bytes on every machine."""

import io
import json
import zipfile
from collections.abc import Callable, Mapping

import numpy as np
from PIL import Image

from tests.helpers.photos import photo

Generator = np.random.Generator
# Sizes and offsets in files are what decoders trust: the edges of every width, in both byte orders.
_EDGES = [
    number.to_bytes(width, order)
    for width in (1, 2, 4, 8)
    for number in (0, 1, 2 ** (8 * width - 1) - 1, 2 ** (8 * width - 1), 2 ** (8 * width) - 1)
    for order in ("big", "little")
]


def picture_files() -> dict[str, bytes]:
    """A small picture in every format that is read, an animation, and one that is turned by its EXIF."""
    found = {}
    for kind in ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP"):
        buffer = io.BytesIO()
        photo("grass", 1).save(buffer, kind)
        found[kind] = buffer.getvalue()
    frames = [photo("brick", seed) for seed in range(3)]
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])
    found["animation"] = buffer.getvalue()
    turned = Image.Exif()
    turned[0x0112] = 6
    buffer = io.BytesIO()
    photo("grass", 2).save(buffer, "JPEG", exif=turned)
    found["EXIF"] = buffer.getvalue()
    return found


def zip_file(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def json_text(value: object) -> bytes:
    return json.dumps(value).encode()


def _changed_bytes(data: bytes, generator: Generator) -> bytes:
    changed = np.frombuffer(data, np.uint8).copy()
    places = generator.integers(0, len(changed), generator.integers(1, 9))
    changed[places] = generator.integers(0, 256, len(places))
    return changed.tobytes()


def _flipped_bit(data: bytes, generator: Generator) -> bytes:
    place = int(generator.integers(len(data)))
    return data[:place] + bytes([data[place] ^ 1 << int(generator.integers(8))]) + data[place + 1 :]


def _edge_number(data: bytes, generator: Generator) -> bytes:
    edge = _EDGES[generator.integers(len(_EDGES))]
    place = int(generator.integers(len(data)))
    return data[:place] + edge + data[place + len(edge) :]


def _cut(data: bytes, generator: Generator) -> bytes:
    return data[: generator.integers(len(data))]


def _left_out(data: bytes, generator: Generator) -> bytes:
    first, last = sorted(generator.integers(0, len(data) + 1, 2))
    return data[:first] + data[last:]


def _repeated(data: bytes, generator: Generator) -> bytes:
    first, last = sorted(generator.integers(0, len(data) + 1, 2))
    return data[:last] + data[first:last] * int(generator.integers(1, 5)) + data[last:]


def _noise_inserted(data: bytes, generator: Generator) -> bytes:
    place = int(generator.integers(len(data)))
    return data[:place] + generator.bytes(int(generator.integers(1, 200))) + data[place:]


_MUTATIONS: tuple[Callable[[bytes, Generator], bytes], ...] = (
    _changed_bytes, _flipped_bit, _edge_number, _cut, _left_out, _repeated, _noise_inserted
)  # fmt: skip


def mutated(data: bytes, generator: Generator, other: bytes = b"") -> bytes:
    """One to three mutations after each other; now and then the end of `other` is put in place of its own."""
    if other and generator.random() < 0.1:
        data = data[: generator.integers(len(data))] + other[generator.integers(len(other)) :]
    for _ in range(generator.integers(1, 4)):
        if data:
            data = _MUTATIONS[generator.integers(len(_MUTATIONS))](data, generator)
    return data
