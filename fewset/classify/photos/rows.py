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
from fewset.classify.photos.taken import time_and_camera
from fewset.data.images.decoding import BadImage, decode_photo
from fewset.encoders import Encoder

THUMBNAIL = 256
"""Pixels of the longer side of the small copies that a classifier keeps: enough to judge a label by."""
BATCH = 32
"""Photos that the encoder embeds at once."""
_HASH = 8


class PhotoRow(NamedTuple):
    """A photo as the classifier knows it, or the reason why it cannot be read."""

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
    """The group of the photo; "" for a photo without one."""
    taken: str = ""
    """When and with which camera it was taken, as `fewset.classify.photos.taken` reads it."""


def photo_rows(photos: Iterable[Photo], encoder: Encoder, thumbnails: bool = False) -> Iterator[PhotoRow]:
    """One row a photo, in order; a photo that cannot be read gets a row with the reason.

    At most two batches of decoded photos are in memory, each reduced to the size that the encoder needs.
    Thumbnails, fingerprints, times and cameras are for photos that a classifier keeps.
    """
    read = partial(read_photo_for, encoder, thumbnails=thumbnails)
    pool = ThreadPoolExecutor(os.cpu_count())
    waiting = iter(photos)
    try:
        coming = [pool.submit(read, photo) for photo in islice(waiting, BATCH)]
        while coming:
            batch = [future.result() for future in coming]
            coming = [pool.submit(read, photo) for photo in islice(waiting, BATCH)]
            embedded = iter(encoder([image for _, image in batch if image is not None]))
            for row, image in batch:
                yield row if image is None else row._replace(features=next(embedded))
    finally:  # Ctrl-C, or a caller who stops early, must not wait for the rest of the photos
        pool.shutdown(cancel_futures=True)


def read_photo_for(
    encoder: Encoder, photo: Photo, thumbnails: bool = False
) -> tuple[PhotoRow, Image.Image | None]:
    """Read and decode a photo, no larger than the encoder needs it: its row without features, and the image.

    The image is None for a photo that cannot be read.
    """
    row = PhotoRow(photo.name, np.full(encoder.dim, np.nan, dtype=np.float32))
    try:
        image = decode_photo(photo.read(), encoder.input_size, photo.box)
    except (BadImage, OSError, ValueError) as error:  # ValueError: a path that no system has
        return row._replace(problem=str(error)), None
    if 0 in image.size:
        return row._replace(problem="the image has no pixels"), None
    if thumbnails:
        row = row._replace(
            thumbnail=_thumbnail(image), fingerprint=fingerprint(image), taken=time_and_camera(image)
        )
    return row, image


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
