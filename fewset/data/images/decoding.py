"""Decode an image file of any format to a square of pixels, or raise `BadImage` with the reason."""

import io
import logging
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil, floor
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.JpegImagePlugin import JpegImageFile

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
_JPEG = b"\xff\xd8\xff"
_BEGINNINGS = (_JPEG, b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*")


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
    size, so that the caller can resize it well. The box is in pixels of the upright image, as it is shown.
    """
    with _reading(data) as image:
        full, shown = image.size, 1.0
        if box is not None:
            shown = max(min(box.width, box.height) / min(full), 1e-6)  # the share of the sides
        _draft(image, ceil(2 * least / shown))
        upright = ImageOps.exif_transpose(image)
        if box is not None:
            upright = _crop(upright, box, max(upright.size) / max(full))
        upright = _to_rgb(upright)
        factor = min(upright.size) // (2 * least)
        return upright.reduce(factor) if factor > 1 else upright


@contextmanager
def _reading(data: bytes | UInt8[np.ndarray, "..."] | Image.Image) -> Iterator[Image.Image]:
    """The opened image; any error in the block becomes a `BadImage`."""
    try:
        with _open(data) as image:
            _check_sides(image)
            yield image
    except BadImage:
        raise
    except Image.DecompressionBombError as error:
        raise BadImage(_too_large("its pixels", jpeg=False)) from error
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
    if data.startswith(_JPEG):  # Image.open rejects sizes that can be decoded reduced
        try:
            return JpegImageFile(io.BytesIO(data))
        except SyntaxError as error:
            raise UnidentifiedImageError from error
    return _identified(data)


def _identified(data: bytes) -> Image.Image:
    """As `Image.open`, without its limit of pixels, of which it warns: `_check_pixels` has a lower one."""
    Image.preinit()
    for kind in _formats(data):
        if kind not in Image.OPEN:
            Image.init()
        factory, accepts = Image.OPEN[kind]
        if accepts is None or accepts(data[:16]) is True:
            try:
                return factory(io.BytesIO(data), "")
            except (SyntaxError, IndexError, TypeError, struct.error):
                continue
    raise UnidentifiedImageError


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
    """The pixels that the box touches; without a box, the whole image."""
    if box is None:
        _draft(image, 2 * least)
        return image
    _check_pixels(image, image.size)
    return _crop(image, box)


def _draft(image: Image.Image, least: int) -> None:
    """Let a large JPEG be decoded at 1/2, 1/4 or 1/8 of its size, but with at least so many pixels a side.

    Only what is decoded must be within the limit: photos of 108 and 200 megapixels are. Of a progressive JPEG
    all coefficients are in memory, however small it becomes.
    """
    full = image.size
    image.draft(None, (least, least))
    _check_pixels(image, full if image.info.get("progressive") else image.size)


def _crop(image: Image.Image, box: Box, scale: float = 1.0) -> Image.Image:
    """The pixels that the box touches; some extend beyond their images, which are reduced to `scale`."""
    left, top = max(0, floor(scale * box.left)), max(0, floor(scale * box.top))
    right = min(image.width, ceil(scale * (box.left + box.width)))
    bottom = min(image.height, ceil(scale * (box.top + box.height)))
    if left >= right or top >= bottom:
        width, height = (round(side / scale) for side in image.size)
        raise BadImage(f"its {box} has no part of the {width} x {height} pixels")
    return image.crop((left, top, right, bottom))


def _check_sides(image: Image.Image) -> None:
    if max(image.size) > _LONGEST_SIDE:  # resizing takes memory for each pixel of it
        raise BadImage(f"{image.width} x {image.height} pixels, expected at most {_LONGEST_SIDE} a side")


def _check_pixels(image: Image.Image, size: tuple[int, int]) -> None:
    """Pillow only warns below twice its limit, and threads share the filter of warnings."""
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and size[0] * size[1] > limit:
        raise BadImage(_too_large(f"{size[0]} x {size[1]} pixels", jpeg=image.format == "JPEG"))


def _too_large(pixels: str, jpeg: bool) -> str:
    remedy = "save it smaller" + ("" if jpeg else ", or as a JPEG, which is decoded reduced")
    return f"{pixels} are more than the limit of {Image.MAX_IMAGE_PIXELS:,}; {remedy}"
