"""A photograph as a drawing: its edges, dark on white, as a stand-in for sketches where there are none."""

from PIL import Image, ImageFilter, ImageOps

_BLUR = 1  # pixels: without it the grain of a JPEG is drawn too
_FRAME = 2  # pixels of each side, where the filter has no neighbours
_LEAST_SIDE = 2 * _FRAME + 1


def edge_drawing(image: Image.Image) -> Image.Image:
    """The edges of an image as grey lines on white, in RGB, two pixels smaller at each side.

    An image of 4 pixels or less a side has no edges, and is refused.
    """
    if min(image.size) < _LEAST_SIDE:
        width, height = image.size
        raise ValueError(f"{width} x {height} pixels, expected {_LEAST_SIDE} a side or more for a drawing")
    edges = image.convert("L").filter(ImageFilter.GaussianBlur(_BLUR)).filter(ImageFilter.FIND_EDGES)
    lines = ImageOps.invert(ImageOps.crop(edges, _FRAME))
    return ImageOps.autocontrast(lines, cutoff=1).convert("RGB")
