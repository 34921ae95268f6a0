import io
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from jaxtyping import UInt8
from PIL import Image, features

from fewset.core.errors import UserError
from fewset.data.images import decoding as images
from fewset.data.images.decoding import BadImage, Box, as_images

FORMATS = ("JPEG", "PNG", "BMP", "GIF", "TIFF", "WEBP")


def encode(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def decode(data: bytes | np.ndarray, size: int, box: Box | None = None) -> np.ndarray:
    return images.decode(data, size, box).pixels


def noise(*shape: int) -> UInt8[np.ndarray, "..."]:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def naive_square(pixels: np.ndarray, size: int) -> np.ndarray:
    """Bilinear with antialiasing (a triangle as wide as a target pixel) over the central square."""

    def weights(length: int, short: int) -> np.ndarray:
        scale = short / size
        width = max(scale, 1.0)
        rows = np.zeros((size, length))
        for target in range(size):
            centre = (length - short) / 2 + (target + 0.5) * scale
            for place in range(length):
                rows[target, place] = max(0.0, 1 - abs(place + 0.5 - centre) / width)
        return rows / rows.sum(axis=1, keepdims=True)

    height, width = pixels.shape[:2]
    short = min(height, width)
    return np.einsum("ah,hwc,bw->abc", weights(height, short), pixels, weights(width, short))


@pytest.mark.parametrize("shape", [(61, 43), (43, 61), (17, 13), (43, 43)])
def test_resizes_the_shorter_side_and_crops_the_centre(shape: tuple[int, int]) -> None:
    pixels = noise(*shape, 3)
    got = decode(encode(Image.fromarray(pixels)), 29)
    assert got.shape == (29, 29, 3)
    # Pillow rounds to whole levels after each of the two directions.
    np.testing.assert_allclose(got, naive_square(pixels, 29), atol=1.5)


def test_a_large_jpeg_is_decoded_as_a_large_png() -> None:
    ramps = np.stack(np.meshgrid(np.linspace(0, 255, 810), np.linspace(255, 0, 610)), axis=-1)
    pixels = np.concatenate([ramps, 255 - ramps[..., :1]], axis=-1).astype(np.uint8)
    jpeg, png = (decode(encode(Image.fromarray(pixels), kind), 29) for kind in ("JPEG", "PNG"))
    np.testing.assert_allclose(jpeg.astype(int), png.astype(int), atol=4)


@pytest.mark.parametrize(
    ("orientation", "turned"),
    [
        (1, lambda stored: stored),
        (2, np.fliplr),
        (3, lambda stored: np.rot90(stored, 2)),
        (4, np.flipud),
        (5, lambda stored: stored.transpose(1, 0, 2)),
        (6, lambda stored: np.rot90(stored, -1)),
        (7, lambda stored: np.rot90(stored, 2).transpose(1, 0, 2)),
        (8, np.rot90),
    ],
)
def test_turned_as_exif_says(orientation: int, turned: object) -> None:
    stored = noise(29, 29, 3)
    exif = Image.Exif()
    exif[0x0112] = orientation
    got = decode(encode(Image.fromarray(stored), "PNG", exif=exif), 29)
    np.testing.assert_array_equal(got, turned(stored))  # type: ignore[operator]


def test_a_large_jpeg_is_turned_too() -> None:
    stored = np.zeros((400, 600, 3), dtype=np.uint8)
    stored[:200] = 255
    exif = Image.Exif()
    exif[0x0112] = 6
    got = decode(encode(Image.fromarray(stored), "JPEG", exif=exif), 28)
    assert got[:, :13].max() < 10
    assert got[:, 15:].min() > 245


def png(width: int, height: int, depth: int, lines: bytes) -> bytes:
    """A PNG in colour, by hand; without lines, only its header."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width, height, depth, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


@pytest.mark.filterwarnings("error")  # Pillow's warning would be printed beside the reason
@pytest.mark.parametrize(
    ("width", "height", "complaint"),
    [
        (65_536, 1, "65536 x 1 pixels, expected at most 65535 a side"),
        (1, 65_536, "1 x 65536 pixels, expected at most 65535 a side"),
        (1, 80_000_000, "1 x 80000000 pixels, expected at most 65535 a side"),
        (60_000, 60_000, "60000 x 60000 pixels are more than the limit of 89,478,485"),
        (10_000, 10_000, "more than the limit of 89,478,485; save it smaller, or as a JPEG"),
    ],
)
def test_an_image_that_is_too_large_is_refused_by_its_header(width: int, height: int, complaint: str) -> None:
    data = png(width, height, 8, b"")
    for read in (decode, images.decode_photo):
        with pytest.raises(BadImage, match=complaint):
            read(data, 29)


def test_a_photo_with_more_pixels_than_the_limit_is_decoded_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    """As 200 megapixels: far more than `Image.open` takes, but an eighth of the sides is what is decoded."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 30_000)
    ramps = np.stack(np.meshgrid(np.linspace(0, 255, 810), np.linspace(255, 0, 610)), axis=-1)
    image = Image.fromarray(np.concatenate([ramps, ramps[..., :1]], axis=-1).astype(np.uint8))
    photo = images.decode_photo(encode(image, "JPEG"), 29)
    assert photo.size == (102, 77)
    expected = np.asarray(image.resize(photo.size, Image.Resampling.BOX), dtype=int)
    np.testing.assert_allclose(np.asarray(photo, dtype=int), expected, atol=6)
    assert decode(encode(image, "JPEG"), 29).shape == (29, 29, 3)
    part = images.decode_photo(encode(image, "JPEG"), 29, Box(10, 10, 600, 600))
    assert max(part.size) < 160
    for kind, options in (("JPEG", {"progressive": True}), ("PNG", {})):
        with pytest.raises(BadImage, match="limit of 30,000"):
            images.decode_photo(encode(image, kind, **options), 29)
    with pytest.raises(BadImage, match="limit of 30,000"):  # a small part needs all pixels
        images.decode_photo(encode(image, "JPEG"), 29, Box(10, 10, 60, 60))


@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_palette_colours(kind: str) -> None:
    indices = noise(29, 29) % 7
    colours = noise(7, 3)
    image = Image.fromarray(indices, mode="P")
    image.putpalette(colours.tobytes())
    np.testing.assert_array_equal(decode(encode(image, kind), 29), colours[indices])


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_cmyk(kind: str) -> None:
    for ink, colour in {(0, 0, 0, 0): 255, (0, 0, 0, 255): 0}.items():
        got = decode(encode(Image.new("CMYK", (29, 29), ink), kind), 29)
        np.testing.assert_array_equal(got, np.full((29, 29, 3), colour))
    cyan = decode(encode(Image.new("CMYK", (29, 29), (255, 0, 0, 0)), kind), 29)
    np.testing.assert_allclose(cyan[11, 11], [0, 255, 255], atol=3)


def test_a_transparent_palette_colour_is_white() -> None:
    image = Image.fromarray(np.tile(np.array([0, 1], dtype=np.uint8), (28, 14)), mode="P")
    image.putpalette([10, 20, 30, 40, 50, 60])
    for kind in ("PNG", "GIF"):
        got = decode(encode(image, kind, transparency=1), 28)
        np.testing.assert_array_equal(got[0, :2], [[10, 20, 30], [255, 255, 255]])


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG", "TIFF"])
def test_the_first_frame_of_an_animation(kind: str) -> None:
    frames = [Image.new("RGB", (29, 29), colour) for colour in ("red", "blue")]
    lossless = {"lossless": True} if kind == "WEBP" else {}
    data = encode(frames[0], kind, save_all=True, append_images=frames[1:], **lossless)
    with Image.open(io.BytesIO(data)) as image:
        assert image.n_frames == 2
    np.testing.assert_array_equal(decode(data, 29), np.full((29, 29, 3), [255, 0, 0]))


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("kind", FORMATS)
def test_truncated(kind: str, kept: float) -> None:
    data = encode(Image.fromarray(noise(61, 43, 3)), kind)
    decode(data, 29)
    with pytest.raises(BadImage):
        decode(data[: int(len(data) * kept)], 29)


@pytest.mark.parametrize(
    "data",
    [
        b"<html>404 not found</html>",
        b"\0" * 1000,
        b"\0\0\0\x18ftypmp42\0\0\0\0isommp42" + bytes(100),  # a film
        # Pillow knows this format, and hands it to another program.
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n",
    ],
)
def test_not_an_image(data: bytes) -> None:
    with pytest.raises(BadImage, match="not an image of a known format"):
        decode(data, 29)


@pytest.mark.parametrize(
    "box",
    [
        Box(5, 7, 29, 29),
        Box(-3.5, 7, 31.5, 28),  # beyond the left edge
        Box(23, 30, 90, 90),  # beyond the right and the lower edge
        Box(3.25, 1.5, 17.5, 30.25),  # the pixels it touches
    ],
)
def test_only_the_box(box: Box) -> None:
    pixels = noise(61, 43, 3)
    top, left = max(0, int(np.floor(box.top))), max(0, int(np.floor(box.left)))
    bottom, right = int(np.ceil(box.top + box.height)), int(np.ceil(box.left + box.width))
    part = pixels[top:bottom, left:right]
    got = images.decode(encode(Image.fromarray(pixels)), 13, box)
    np.testing.assert_array_equal(got.pixels, decode(encode(Image.fromarray(part)), 13))
    assert got.side == min(part.shape[:2])


def test_a_box_in_a_large_jpeg_keeps_its_place() -> None:
    pixels = np.zeros((610, 810, 3), dtype=np.uint8)
    pixels[400:464, 600:664] = 255
    assert decode(encode(Image.fromarray(pixels), "JPEG"), 8, Box(608, 408, 48, 48)).min() > 250


@pytest.mark.parametrize("size", [200, 1600])
def test_a_box_in_a_photo_is_where_the_upright_photo_shows_it(size: int) -> None:
    """Also in a large photo, which is decoded reduced."""
    stored = np.zeros((size, 2 * size, 3), dtype=np.uint8)
    stored[: size // 2, : size // 2] = 255  # upright: a white square at the upper right
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn to the right
    data = encode(Image.fromarray(stored), "JPEG", exif=exif, quality=95)
    half = size / 2
    inside = np.asarray(images.decode_photo(data, 20, Box(1.1 * half, 0.1 * half, 0.8 * half, 0.8 * half)))
    outside = np.asarray(images.decode_photo(data, 20, Box(0, 0, 0.9 * half, size)))
    assert min(inside.shape[:2]) >= 40
    assert inside.min() > 245
    assert outside.max() < 10


@pytest.mark.parametrize("box", [Box(43, 0, 5, 5), Box(0, -9, 5, 9), Box(3, 3, 0, 5)])
def test_a_box_beside_the_image(box: Box) -> None:
    for read in (decode, images.decode_photo):
        with pytest.raises(BadImage, match="no part of the 43 x 61 pixels"):
            read(encode(Image.fromarray(noise(61, 43, 3))), 13, box)


@pytest.mark.parametrize("shape", [(61, 43, 3), (43, 61, 3), (61, 43)])
def test_pixels_are_resized_as_files_are(shape: tuple[int, ...]) -> None:
    pixels = noise(*shape)
    got = images.decode(pixels, 29)
    np.testing.assert_array_equal(got.pixels, decode(encode(Image.fromarray(pixels)), 29))
    assert got.side == 43


@pytest.mark.parametrize(
    "array", [noise(5, 7, 7), noise(5, 7, 7, 4), noise(5, 7, 7, 3).astype(float), [1, 2]]
)
def test_arrays_that_are_no_images(array: object) -> None:
    with pytest.raises(UserError, match=r"images of a.pkl have shape .* expected"):
        as_images(array, "a.pkl")


# HEIC and AVIF


@pytest.fixture
def heif() -> None:
    """Pillow writes HEIC files."""
    pytest.importorskip("pillow_heif", reason="needs fewset[heic]").register_heif_opener()


NO_AVIF = pytest.mark.skipif(not features.check("avif"), reason="Pillow before 11.3 has no AVIF")


@pytest.mark.usefixtures("heif")
@pytest.mark.parametrize("kind", ["HEIF", pytest.param("AVIF", marks=NO_AVIF)])
def test_photos_of_phones(kind: str) -> None:
    """Upright, once: the plugin for HEIC turns by itself what EXIF says."""
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn to the right
    halves = np.zeros((64, 96, 3), dtype=np.uint8)
    halves[:, :48] = 255  # after the turn the upper half is white
    data = encode(Image.fromarray(halves), kind, exif=exif.tobytes(), quality=95)
    upright = images.decode_photo(data, 64)
    assert upright.size == (64, 96)
    pixels = np.asarray(upright.convert("L"))
    assert pixels[:44].mean() > 245
    assert pixels[52:].mean() < 10
    with pytest.raises(BadImage):
        images.decode_photo(data[: len(data) // 2], 64)


@pytest.mark.usefixtures("heif")
def test_heic_without_its_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode(Image.new("RGB", (64, 64)), "HEIF")
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(BadImage, match=r"pip install 'fewset\[heic\]'"):
        decode(data, 29)


def test_pillow_prints_nothing_of_a_bad_image() -> None:
    tiff = bytearray(encode(Image.fromarray(noise(7, 5, 3)), "TIFF"))
    place = tiff.index(struct.pack("<HHI", 277, 3, 1))  # samples per pixel
    tiff[place + 8 : place + 10] = struct.pack("<H", 1027)
    program = f"from fewset.data.images.decoding import decode\ndecode({bytes(tiff)!r}, 8)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "BadImage" in done.stderr
    assert "samples per pixel" not in done.stderr.partition("Traceback")[0]
