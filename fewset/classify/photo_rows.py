"""Photos become rows of features, a batch at a time: decoded in threads while the encoder computes."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32
from PIL import Image

from fewset.classify.photos import Photo
from fewset.data.images.decoding import BadImage, decode_photo
from fewset.models.encoders import Encoder

THUMBNAIL = 96
"""Pixels of the longer side of the small copies that a classifier keeps."""
_BATCH = 32
_HASH = 8


class PhotoRow(NamedTuple):
    """A photo as the classifier knows it, or why it does not."""

    name: str
    features: Float32[np.ndarray, "D"]
    """NaN for a photo that cannot be read."""
    thumbnail: bytes = b""
    """A small JPEG."""
    fingerprint: int = 0
    """64 bits that hardly change when a photo is resized, compressed or brightened."""
    problem: str = ""
    """Why the photo cannot be read."""


def photo_rows(photos: Sequence[Photo], encoder: Encoder) -> Iterator[PhotoRow]:
    """One row a photo, in order; what cannot be read is a row with its reason.

    Two batches of decoded photos are in memory at most, each reduced to what the encoder needs.
    """
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        batches = [photos[start : start + _BATCH] for start in range(0, len(photos), _BATCH)]
        coming = [pool.submit(_look, photo, encoder.input_size) for photo in next(iter(batches), ())]
        for number, batch in enumerate(batches):
            looked = [future.result() for future in coming]
            following = batches[number + 1] if number + 1 < len(batches) else ()
            coming = [pool.submit(_look, photo, encoder.input_size) for photo in following]
            embedded = iter(encoder([look.image for look in looked if look.image is not None]))
            for photo, look in zip(batch, looked, strict=True):
                features = (
                    np.full(encoder.dim, np.nan, dtype=np.float32) if look.image is None else next(embedded)
                )
                yield PhotoRow(photo.name, features, look.thumbnail, look.fingerprint, look.problem)
    finally:  # Ctrl-C, or a caller who has seen enough, must not wait for the rest of the photos
        pool.shutdown(cancel_futures=True)


class _Look(NamedTuple):
    image: Image.Image | None
    thumbnail: bytes = b""
    fingerprint: int = 0
    problem: str = ""


def _look(photo: Photo, size: int) -> _Look:
    try:
        image = decode_photo(photo.read(), size)
    except (BadImage, OSError) as error:
        return _Look(None, problem=str(error))
    return _Look(image, _thumbnail(image), fingerprint(image))


def _thumbnail(image: Image.Image) -> bytes:
    small = image.copy()
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    buffer = BytesIO()
    small.save(buffer, "JPEG", quality=80)
    return buffer.getvalue()


def fingerprint(image: Image.Image) -> int:
    """The difference hash: whether each of 8 x 8 grey cells is brighter than its right neighbour."""
    grey = np.asarray(image.convert("L").resize((_HASH + 1, _HASH), Image.Resampling.BOX), dtype=np.int16)
    bits = (grey[:, 1:] < grey[:, :-1]).flatten()
    return int.from_bytes(np.packbits(bits).tobytes())
