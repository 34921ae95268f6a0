"""From a photograph to the input of a network."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from fewset.core.errors import UserError
from fewset.encoders.preprocessing import FILTERS, Preprocessing, to_rgb
from tests.helpers.encoders import photograph

PREPROCESSING = Preprocessing(11, 13, 17, mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))


def test_the_filters_have_the_indices_of_pillow() -> None:
    assert FILTERS.items() <= {each.name.lower(): each.value for each in Image.Resampling}.items()


@pytest.mark.parametrize("size", [(97, 53), (53, 97), (17, 17), (3, 2), (136, 17)])
@pytest.mark.parametrize("resize", [17, 13, (19, 23), (11, 13)])
def test_resized_and_cropped_in_the_centre(resize: int | tuple[int, int], size: tuple[int, int]) -> None:
    image = photograph(0, *size)
    if isinstance(resize, int):
        wide, high = (int(resize * length / min(size)) for length in size)
    else:
        high, wide = resize
    left, top = (wide - 13) // 2, (high - 11) // 2
    expected = np.asarray(image.resize((wide, high), Image.Resampling.BICUBIC))[
        top : top + 11, left : left + 13
    ]
    np.testing.assert_array_equal(replace(PREPROCESSING, resize=resize).pixels(image), expected)


def test_of_a_strip_the_middle_is_resized() -> None:
    """Not all of it: a strip of a million pixels would become one of 17 million."""
    strip = Image.new("RGB", (1_000_000, 1), "red")
    strip.paste("blue", (499_999, 0, 500_001, 1))
    pixels = PREPROCESSING.pixels(strip)
    assert pixels.shape == (11, 13, 3)
    assert (pixels[:, 6] == [0, 0, 255]).all()


def test_the_normalisation_of_pixels() -> None:
    preprocessing = replace(PREPROCESSING, scale=0.01)
    factors, summands = preprocessing.affine()
    pixels = np.array([0, 7, 255])
    for channel in range(3):
        expected = (0.01 * pixels - PREPROCESSING.mean[channel]) / PREPROCESSING.std[channel]
        np.testing.assert_allclose(pixels * factors[channel] + summands[channel], expected)


def test_every_setting_changes_the_digest(tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.write_bytes(b"weights")
    changes: list[dict[str, Any]] = [
        {},
        {"height": 7},
        {"width": 7},
        {"resize": 19},
        {"resize": (17, 17)},
        {"mean": (0.1, 0.2, 0.31)},
        {"std": (0.4, 0.5, 0.61)},
        {"resample": 2},
        {"scale": 1.0},
    ]
    digests = [replace(PREPROCESSING, **change).digest([weights]) for change in changes]
    assert digests[0] == PREPROCESSING.digest([weights])
    weights.write_bytes(b"others")
    assert len({*digests, PREPROCESSING.digest([weights])}) == len(changes) + 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"height": 0}, "the crop is 0 x 13"),
        ({"resize": 12}, "the crop is 11 x 13 pixels, but images are resized to 12"),
        ({"resize": (13, 11)}, r"resized to \(13, 11\)"),
        ({"resample": 6}, "the resampling filter is 6"),
        ({"std": (1.0, 0.0, 1.0)}, "above 0"),
        ({"scale": 0.0}, "above 0"),
    ],
)
def test_settings_that_make_no_sense(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        replace(PREPROCESSING, **change)


def test_transparency_is_over_white() -> None:
    """Every value with every opacity."""
    value, alpha = np.meshgrid(np.arange(256), np.arange(256))
    image = Image.fromarray(np.stack([value, 255 - value, value // 2, alpha], axis=-1).astype(np.uint8))
    colours = np.asarray(image).astype(float)
    opacity = colours[..., 3:] / 255
    expected = colours[..., :3] * opacity + 255 * (1 - opacity)
    np.testing.assert_allclose(np.asarray(to_rgb(image)), expected, atol=0.51)


@pytest.mark.parametrize("mode", ["I;16", "I;16B"])
def test_sixteen_bits_are_scaled(mode: str) -> None:
    values = np.arange(65536, dtype=">u2" if mode.endswith("B") else "<u2")
    image = Image.frombytes(mode, (256, 256), values.tobytes())
    expected = (values.astype(float) * 255 / 65535 + 0.5).astype(np.uint8).reshape(256, 256)
    np.testing.assert_array_equal(np.asarray(to_rgb(image))[..., 1], expected)


@pytest.mark.parametrize("mode", ["F", "I", "LAB"])
def test_pixels_whose_range_is_not_known_are_refused(mode: str) -> None:
    with pytest.raises(UserError, match=f"pixels of type '{mode}'; expected grey, RGB or CMYK"):
        to_rgb(Image.new(mode, (2, 3)))


def test_an_rgb_image_is_not_copied() -> None:
    image = photograph()
    assert to_rgb(image) is image
