"""Decode an image file of any format to a square of pixels, or raise `BadImage` with the reason."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil, floor
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError

from fewset.core.errors import UserError
from fewset.core.extras import import_extra

# Pillow reports bad images in exceptions; its log would go to the terminal.
logging.getLogger("PIL").addHandler(logging.NullHandler())

# Not every format of Pillow: some start other programs (EPS) or hold no pixels.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP")
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".avif", ".heic", ".heif")
_LONGEST_SIDE = 2**16 - 1  # of a JPEG; no camera has more
# AVIF and HEIF are ISO-BMFF containers, like MP4; the `ftyp` box lists their brands.
_AVIF = {b"avif", b"avis"}
_HEIF = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"}

# The first bytes of files of these formats; TIFF has two kinds.
_BEGINNINGS = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*")


def is_image(beginning: bytes) -> bool:
    """Whether the first 16 bytes of a file are those of an image."""
    if beginning[4:8] == b"ftyp":
        return beginning[8:12] in _AVIF | _HEIF
    is_webp = beginning.startswith(b"RIFF") and beginning[8:12] == b"WEBP"
    return is_webp or beginning.startswith(_BEGINNINGS)


def pictures(pixels: UInt8[np.ndarray, "n height width 3"]) -> list[Image.Image]:
    """Stored images as Pillow images, for encoders."""
    return [Image.fromarray(each) for each in pixels]


class BadImage(Exception):  # noqa: N818 - it is the image that is bad; the program goes on
    """An image that cannot be decoded; the text is the reason."""


class Box(NamedTuple):
    """A part of a stored image, in pixels from its upper left corner."""

    left: float
    top: float
    width: float
    height: float


class Decoded(NamedTuple):
    pixels: UInt8[np.ndarray, "size size 3"]
    side: int
    """The shorter side of the source, or of its box, in pixels."""


def decode(data: bytes | UInt8[np.ndarray, "..."], size: int, box: Box | None = None) -> Decoded:
    """The central square of an image (an image file, or pixels), as RGB of `size` by `size` pixels.

    The shorter side is resized to `size` (bilinear with antialiasing, as the paper's `Resize`) and the
    longer one is cropped at both ends. The image is rotated by its EXIF data; an animation gives its first
    frame, transparency becomes white, 16 bits are scaled to 8. With a box, only that part is used.
    """
    with _reading(data) as image:
        side = min(image.size)
        part = _part(image, box, size)
        ImageOps.exif_transpose(part, in_place=True)
        square = ImageOps.fit(_to_rgb(part), (size, size), Image.Resampling.BILINEAR)
        return Decoded(np.asarray(square), side if box is None else min(part.size))


def decode_photo(
    data: bytes | UInt8[np.ndarray, "..."] | Image.Image, least: int, box: Box | None = None
) -> Image.Image:
    """A whole image (or box) as RGB, upright, no larger than needed for a shorter side of `least` pixels.

    A large image is reduced by an integer factor while or after it is decoded, and keeps twice the needed
    size, so that the caller can resize it well.
    """
    with _reading(data) as image:
        upright = _to_rgb(ImageOps.exif_transpose(_part(image, box, least)))
        factor = min(upright.size) // (2 * least)
        return upright.reduce(factor) if factor > 1 else upright


@contextmanager
def _reading(data: bytes | UInt8[np.ndarray, "..."] | Image.Image) -> Iterator[Image.Image]:
    """The opened image; any error in the block becomes a `BadImage`."""
    try:
        with _open(data) as image:
            _check_size(image)
            yield image
    except BadImage:
        raise
    except UnidentifiedImageError as error:
        raise BadImage(f"not an image of a known format ({', '.join(FORMATS)}, AVIF, HEIC)") from error
    # Damaged files make Pillow raise almost anything: OSError, SyntaxError, struct.error, IndexError, …
    except Exception as error:
        raise BadImage(str(error) or type(error).__name__) from error


def as_images(array: Any, where: str) -> UInt8[np.ndarray, "items height width 3"]:
    """The array, checked to be one of images; `where` names it in the error."""
    images = np.asarray(array)
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] != 3:
        got = f"shape {images.shape} and type {images.dtype}"
        raise UserError(f"the images of {where} have {got}, expected (items, height, width, 3) and uint8")
    return images


def encode(pixels: UInt8[np.ndarray, "height width 3"], kind: Literal["JPEG", "PNG"]) -> bytes:
    """The bytes of an image file; a PNG keeps every pixel."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def _open(data: bytes | UInt8[np.ndarray, "..."] | Image.Image) -> Image.Image:
    if isinstance(data, Image.Image):
        return data.copy()  # the caller's image must not be rotated or closed
    if not len(data):
        raise BadImage("empty file")
    if isinstance(data, np.ndarray):
        return Image.fromarray(data)
    return Image.open(io.BytesIO(data), formats=_formats(data))


def _formats(data: bytes) -> tuple[str, ...]:
    """The formats that Pillow may try; the plugin for HEIC is loaded with the first such file."""
    if data[4:8] != b"ftyp":
        return FORMATS
    end = min(int.from_bytes(data[:4]), len(data))
    brands = {data[8:12], *(data[start : start + 4] for start in range(16, end, 4))}
    if brands & _AVIF:
        return ("AVIF",)
    if brands & _HEIF:
        import_extra("pillow_heif", "heic").register_heif_opener()
        return ("HEIF",)
    return FORMATS


def _to_rgb(image: Image.Image) -> Image.Image:
    from fewset.encoders.preprocessing import to_rgb  # imports torch, which listing a source does not need

    return to_rgb(image)  # type: ignore[no-any-return]


def _part(image: Image.Image, box: Box | None, least: int) -> Image.Image:
    """The pixels that the box touches; some boxes extend beyond their images.

    Without a box, the whole image. A large JPEG is decoded at 1/2, 1/4 or 1/8 of its size, but at least at
    twice the size that is needed, a margin for the antialiasing.
    """
    if box is None:
        image.draft(None, (2 * least, 2 * least))
        return image
    left, top = max(0, floor(box.left)), max(0, floor(box.top))
    right = min(image.width, ceil(box.left + box.width))
    bottom = min(image.height, ceil(box.top + box.height))
    if left >= right or top >= bottom:
        raise BadImage(f"its {box} has no part of the {image.width} x {image.height} pixels")
    return image.crop((left, top, right, bottom))


def _check_size(image: Image.Image) -> None:
    """Pillow only warns below twice its limit, and threads share the filter of warnings."""
    limit = Image.MAX_IMAGE_PIXELS
    if max(image.size) > _LONGEST_SIDE:  # resizing takes memory for each pixel of it
        raise BadImage(f"{image.width} x {image.height} pixels, expected at most {_LONGEST_SIDE} a side")
    if limit is not None and image.width * image.height > limit:
        raise BadImage(
            f"decompression bomb? {image.width} x {image.height} pixels are more than the limit of {limit}"
        )
