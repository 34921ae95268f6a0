"""The pixels of a photo for `my.onnx`, step by step as on a phone: Pillow only decodes here."""

import numpy as np
from PIL import Image, ImageOps

SIZE = 224  # `height`, `width` and both numbers of `resize` of the encoder efficientnet-lite0


def decoded(path):
    """Upright RGB; a large JPEG at 1/2, 1/4 or 1/8 of its size, with at least twice the pixels needed."""
    image = Image.open(path)
    image.draft(None, (2 * SIZE, 2 * SIZE))
    return np.asarray(ImageOps.exif_transpose(image).convert("RGB"), dtype=float)


def resized_and_turned(image, size):
    """The width resized to `size` (bilinear, antialiased), and the two axes swapped."""
    high, wide, _ = image.shape
    result = np.zeros((size, high, 3))
    step = wide / size
    reach = max(step, 1)
    for x in range(size):
        centre = (x + 0.5) * step
        first, last = max(0, int(centre - reach + 0.5)), min(wide, int(centre + reach + 0.5))
        shares = np.maximum(0, 1 - abs(np.arange(first, last) + 0.5 - centre) / reach)
        result[x] = np.floor(image[:, first:last].transpose(0, 2, 1) @ shares / shares.sum() + 0.5)
    return result


def pixels(path):
    return resized_and_turned(resized_and_turned(decoded(path), SIZE), SIZE).astype(np.uint8)
