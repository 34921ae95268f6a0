import io
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fewset.core.errors import UserError
from fewset.data.images.decoding import decode
from fewset.data.images.importers import IMPORTERS
from fewset.data.images.importing import import_set
from fewset.data.images.sources import open_source
from fewset.data.images.store import SPLITS
from tests.helpers.real_files import real_file
from tests.helpers.trees import Tree, Write, as_directory, both


def drawing(seed: int) -> bytes:
    """Two-level, black on white, as the files of Omniglot are."""
    pixels = np.full((105, 105), 255, dtype=np.uint8)
    generator = np.random.default_rng(seed)
    for _ in range(3):
        top, left = generator.integers(0, 80, 2)
        pixels[top : top + 20, left : left + 5] = 0
    buffer = io.BytesIO()
    Image.fromarray(pixels).convert("1").save(buffer, "PNG")
    return buffer.getvalue()


PLACES = {
    "images_background/Latin/character01": "train",
    "images_background/Hebrew/character02": "val",
    "images_background/Mkhedruli_(Georgian)/character01": "val",
    "images_evaluation/Gurmukhi/character41": "train",
    "images_evaluation/Gurmukhi/character42": "test",
    "images_evaluation/Tengwar/character07": "test",
}


def omniglot(top: str = "") -> Tree:
    tree = {
        f"{top}{place}/{number:04}_{item:02}.png": drawing(number * 10 + item)
        for number, place in enumerate(PLACES)
        for item in range(1, 4)
    }
    return {**tree, f"{top}strokes_background/Latin/character01/0000_01.txt": b"x", f"{top}README.md": b"x"}


@both
@pytest.mark.parametrize("top", ["", "omniglot/"])
def test_each_character_makes_four_classes(tmp_path: Path, write: Write, top: str) -> None:
    tree = omniglot(top)
    got = import_set("omniglot", write(tree, tmp_path))
    assert got.images.shape == (len(PLACES) * 4 * 3, 28, 28, 3)
    expected = [
        (SPLITS.index(split), f"{alphabet}/{character}/rot{angle:03}", file, angle)
        for place, split in PLACES.items()
        for _, alphabet, character in [place.split("/")]
        for file in tree
        if file.startswith(f"{top}{place}/")
        for angle in (0, 90, 180, 270)
    ]
    for row, (split, name, file, angle) in enumerate(sorted(expected)):
        assert got.splits[row] == split
        assert got.class_names[got.labels[row]] == name
        upright = Image.fromarray(decode(tree[file], 28).pixels)
        np.testing.assert_array_equal(got.images[row], np.asarray(upright.rotate(angle)))


@pytest.mark.parametrize("missing", ["images_background", "images_evaluation"])
def test_a_missing_half_is_named(tmp_path: Path, missing: str) -> None:
    tree = {file: data for file, data in omniglot().items() if not file.startswith(missing)}
    with pytest.raises(UserError, match=f"layout of Omniglot: {missing}/alphabet/character/ has no images"):
        import_set("omniglot", as_directory(tree, tmp_path))


@pytest.mark.slow
def test_the_real_omniglot() -> None:
    with open_source(real_file("omniglot.zip")) as source:
        entries = IMPORTERS["omniglot"].entries(source)
        assert len(entries) == 129_840
        per_class = Counter(entry.class_name for entry in entries)
        assert len(per_class) == 4 * 1_623
        assert set(per_class.values()) == {20}
        classes = Counter({entry.class_name: entry.split for entry in entries}.values())
        assert classes == {"train": 4 * 1_028, "val": 4 * 172, "test": 4 * 423}
        for entry in entries[::3001]:
            pixels, side = decode(source.read(entry.file), 28)
            assert side == 105
            assert np.median(pixels) == 255
            assert pixels.min() < 128
