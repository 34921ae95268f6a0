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

from fewset.classify.photos.sources import Photo
from fewset.data.images.decoding import BadImage, decode_photo
from fewset.encoders import Encoder

THUMBNAIL = 96
"""Pixels of the longer side of the small copies that a classifier keeps."""
BATCH = 32
"""Photos that the encoder is given at once."""
_HASH = 8


class PhotoRow(NamedTuple):
    """A photo as the classifier knows it, or why it does not."""

    name: str
    features: Float32[np.ndarray, " D"]
    """NaN for a photo that cannot be read."""
    thumbnail: bytes = b""
    """A small JPEG."""
    fingerprint: int = 0
    """64 bits that hardly change when a photo is resized, compressed or brightened."""
    problem: str = ""
    """Why the photo cannot be read."""
    group: str = ""
    """What it belongs to with others; "" where it stands for itself."""


def photo_rows(photos: Iterable[Photo], encoder: Encoder, thumbnails: bool = False) -> Iterator[PhotoRow]:
    """One row a photo, in order; what cannot be read is a row with its reason.

    Two batches of decoded photos are in memory at most, each reduced to what the encoder needs. Thumbnails
    and fingerprints are for photos that a classifier keeps.
    """
    look = partial(look_at, size=encoder.input_size, thumbnails=thumbnails)
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
            for seen in looked:
                yield seen.unreadable(encoder.dim) if seen.image is None else seen.row(next(embedded))
            batch = following
    finally:  # Ctrl-C, or a caller who has seen enough, must not wait for the rest of the photos
        pool.shutdown(cancel_futures=True)


class Look(NamedTuple):
    """A photo that is decoded and not yet embedded."""

    name: str
    image: Image.Image | None
    """None for a photo that cannot be read."""
    thumbnail: bytes = b""
    fingerprint: int = 0
    problem: str = ""

    def row(self, features: Float32[np.ndarray, " D"]) -> PhotoRow:
        """The photo with what the encoder made of its image."""
        return PhotoRow(self.name, features, self.thumbnail, self.fingerprint, self.problem)

    def unreadable(self, dim: int) -> PhotoRow:
        """The row of a photo that has no image."""
        return self.row(np.full(dim, np.nan, dtype=np.float32))


def look_at(photo: Photo, size: int, thumbnails: bool = False) -> Look:
    """Read and decode a photo, no larger than an encoder of that input size needs it."""
    try:
        image = decode_photo(photo.read(), size)
    except (BadImage, OSError, ValueError) as error:  # ValueError: a path that no system has
        return Look(photo.name, None, problem=str(error))
    if 0 in image.size:
        return Look(photo.name, None, problem="the image has no pixels")
    if not thumbnails:
        return Look(photo.name, image)
    return Look(photo.name, image, _thumbnail(image), fingerprint(image))


def _thumbnail(image: Image.Image) -> bytes:
    small = image.copy()
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    buffer = BytesIO()
    small.save(buffer, "JPEG", quality=80)
    return buffer.getvalue()


def fingerprint(image: Image.Image) -> int:
    """The difference hash: whether each of 8 x 8 grey cells is brighter than its right neighbour.

    It is never 0, which stands for a row without a photo: a flat photo has 1.
    """
    grey = np.asarray(image.convert("L").resize((_HASH + 1, _HASH), Image.Resampling.BOX), dtype=np.int16)
    bits = (grey[:, 1:] < grey[:, :-1]).flatten()
    return int.from_bytes(np.packbits(bits).tobytes()) or 1
