"""An image file becomes a square of pixels, whatever its format; what cannot be decoded says why."""

import io

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError

# Not every format that Pillow knows: some start other programs (EPS) or hold no pixels.
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP")
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp")

_MODES = {"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr"}
_MODES_OF_16_BITS = {"I;16", "I;16L", "I;16B", "I;16N"}


class BadImage(Exception):  # noqa: N818 - it is the image that is bad; the program goes on
    """An image that cannot be decoded; the text is the reason."""


def decode(data: bytes, size: int) -> UInt8[np.ndarray, "size size 3"]:
    """The central square of an image, as RGB of `size` by `size` pixels.

    The shorter side is resized to `size` (bilinear with antialiasing, as the paper's `Resize`) and the
    longer one is cropped at both ends. Rotated as its EXIF data say; the first frame of an animation;
    transparency over white; 16 bits scaled to 8.
    """
    if not data:
        raise BadImage("empty file")
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            _refuse_bomb(image)
            # A large JPEG is decoded at 1/2, 1/4 or 1/8 of its size, with a margin for the antialiasing.
            image.draft(None, (2 * size, 2 * size))
            ImageOps.exif_transpose(image, in_place=True)
            square = ImageOps.fit(_to_rgb(image), (size, size), Image.Resampling.BILINEAR)
    except BadImage:
        raise
    except UnidentifiedImageError as error:
        raise BadImage(f"not an image of a known format ({', '.join(FORMATS)})") from error
    # Damaged files make Pillow raise almost anything: OSError, SyntaxError, struct.error, IndexError, …
    except Exception as error:
        raise BadImage(str(error) or type(error).__name__) from error
    return np.asarray(square)


def _refuse_bomb(image: Image.Image) -> None:
    """Pillow only warns below twice its limit, and warnings cannot be caught in one thread of several."""
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and image.width * image.height > limit:
        raise BadImage(
            f"decompression bomb? {image.width} x {image.height} pixels are more than the limit of {limit}"
        )


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode in _MODES_OF_16_BITS:
        # Pillow's own conversion clips at 255 instead of scaling.
        wide = np.asarray(image).astype(np.uint32)
        image = Image.fromarray(((wide * 255 + 32767) // 65535).astype(np.uint8))
    if image.mode not in _MODES:
        raise BadImage(f"pixels of type {image.mode!r}; expected grey, RGB or CMYK of 8 or 16 bits")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")
