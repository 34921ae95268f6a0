"""Photos become rows of features, a batch at a time: decoded in threads while the encoder computes."""

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BytesIO
from itertools import islice
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32
from PIL import Image

from fewset.classify.photos import Photo
from fewset.data.images.decoding import BadImage, decode_photo
from fewset.models.encoders import Encoder

THUMBNAIL = 96
"""Pixels of the longer side of the small copies that a classifier keeps."""
BATCH = 32
"""Photos that the encoder is given at once."""
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


def photo_rows(photos: Iterable[Photo], encoder: Encoder, thumbnails: bool = True) -> Iterator[PhotoRow]:
    """One row a photo, in order; what cannot be read is a row with its reason.

    Two batches of decoded photos are in memory at most, each reduced to what the encoder needs. Thumbnails
    and fingerprints are for photos that a classifier keeps.
    """
    look = partial(_look, size=encoder.input_size, thumbnails=thumbnails)
    pool = ThreadPoolExecutor(os.cpu_count())
    waiting = iter(photos)
    try:
        batch = list(islice(waiting, BATCH))
        coming = [pool.submit(look, photo) for photo in batch]
        while batch:
            looked = [future.result() for future in coming]
            following = list(islice(waiting, BATCH))
            coming = [pool.submit(look, photo) for photo in following]
            embedded = iter(encoder([each.image for each in looked if each.image is not None]))
            for photo, seen in zip(batch, looked, strict=True):
                features = (
                    np.full(encoder.dim, np.nan, dtype=np.float32) if seen.image is None else next(embedded)
                )
                yield PhotoRow(photo.name, features, seen.thumbnail, seen.fingerprint, seen.problem)
            batch = following
    finally:  # Ctrl-C, or a caller who has seen enough, must not wait for the rest of the photos
        pool.shutdown(cancel_futures=True)


class _Look(NamedTuple):
    image: Image.Image | None
    thumbnail: bytes = b""
    fingerprint: int = 0
    problem: str = ""


def _look(photo: Photo, size: int, thumbnails: bool) -> _Look:
    try:
        image = decode_photo(photo.read(), size)
    except (BadImage, OSError, ValueError) as error:  # ValueError: a path that no system has
        return _Look(None, problem=str(error))
    return _Look(image, _thumbnail(image), fingerprint(image)) if thumbnails else _Look(image)


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
