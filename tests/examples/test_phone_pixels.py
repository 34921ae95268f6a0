"""The steps of the page "On a phone", run as they are written there, give the rows of fewset."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fewset import embed
from fewset.classify.embedding import chosen_encoder
from tests.helpers.drawn import FRUIT, drawn

ROOT = Path(__file__).parents[2]
STEPS = runpy.run_path(str(ROOT / "docs" / "examples" / "phone_pixels.py"))
TURNED = Image.Exif()
TURNED[0x0112] = 6


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Small and large, wide, on its side, smaller than the network needs."""
    folder = tmp_path_factory.mktemp("photos")
    drawn(FRUIT["apple"], 1).save(folder / "small.png")
    drawn(FRUIT["pear"], 2, 120).save(folder / "tiny.png")
    drawn(FRUIT["banana"], 3, 900).crop((0, 100, 900, 700)).save(folder / "wide.jpg", exif=TURNED)
    drawn(FRUIT["apple"], 4, 2000).save(folder / "large.jpg", quality=92)
    return sorted(folder.iterdir())


def test_the_steps_give_the_rows_of_fewset(photos: list[Path]) -> None:
    encoder = chosen_encoder("efficientnet-lite0", "cpu")
    expected = embed([str(photo) for photo in photos], device="cpu")
    pixels = [STEPS["pixels"](photo) for photo in photos]
    assert {each.shape for each in pixels} == {(224, 224, 3)}
    rows = encoder([Image.fromarray(each) for each in pixels])
    cosines = (rows * expected).sum(1) / np.linalg.norm(rows, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosines.min() > 0.9999, dict(zip([photo.name for photo in photos], cosines, strict=True))


def test_it_resizes_as_pillow_does() -> None:
    generator = np.random.default_rng(0)
    for wide, high in ((331, 257), (97, 613), (40, 30)):
        image = Image.fromarray(generator.integers(0, 256, (high, wide, 3), dtype=np.uint8))
        turned = STEPS["resized_and_turned"](np.asarray(image, dtype=float), 224)
        got = STEPS["resized_and_turned"](turned, 224)
        expected = np.asarray(image.resize((224, 224), Image.Resampling.BILINEAR), dtype=float)
        assert np.abs(got - expected).max() <= 1


def test_all_three_programs_take_the_same_steps() -> None:
    """The formulas of the resizing, without what each language writes in its own way."""
    texts = {
        name: "".join((ROOT / "docs" / "examples" / name).read_text().split())
        for name in ("phone_pixels.py", "ClassifyPhoto.kt", "ClassifyPhoto.swift")
    }
    for name, text in texts.items():
        for part in ("+0.5)*step", "centre-reach+0.5", "centre+reach+0.5", "+0.5-centre)/reach"):
            assert part in text.replace("0.5f", "0.5"), (name, part)
