"""Labelled sets as rows of features: as the classifier embeds photos, and kept for the next time."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks.classifier.embedded import EmbeddedSet, SetSource, embedded_set
from fewset.classify.embedding import embed
from fewset.core.errors import UserError
from fewset.data.manifest import home
from tests.helpers.photos import CLASSES, TinyEncoder, photo, write_photos


class CountingEncoder(TinyEncoder):
    seen = 0

    def __call__(self, images: Sequence[Image.Image]) -> np.ndarray:
        CountingEncoder.seen += len(images)
        return super().__call__(images)


def embedded_folder(folder: Path) -> EmbeddedSet:
    return embedded_set(SetSource("folder", folder), CountingEncoder())


def test_rows_are_those_of_the_classifier_and_are_kept(tmp_path: Path) -> None:
    folder = write_photos(tmp_path / "photos")
    CountingEncoder.seen = 0
    items = embedded_folder(folder)
    np.testing.assert_array_equal(items.features, embed(folder, TinyEncoder()))
    assert items.class_names == tuple(sorted(CLASSES))
    assert items.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert (items.origins, items.encoder.digest) == (None, "d1" * 32)
    assert CountingEncoder.seen == 12
    again = embedded_folder(folder)
    assert CountingEncoder.seen == 12
    np.testing.assert_array_equal(again.features, items.features)
    np.testing.assert_array_equal(again.fingerprints, items.fingerprints)
    assert len(set(items.fingerprints.tolist())) == 12
    assert len(list((home() / "embeddings").glob("*.safetensors"))) == 1


def test_other_images_are_embedded_again(tmp_path: Path) -> None:
    folder = write_photos(tmp_path / "photos")
    first = embedded_folder(folder)
    photo("grass", 99).save(folder / "grass" / "1.png")
    second = embedded_folder(folder)
    assert first.images_digest != second.images_digest
    assert (first.features != second.features).any(axis=1).sum() == 1


def write_domains(folder: Path) -> Path:
    for label in CLASSES:
        for domain in ("Photo", "Sketch"):
            (folder / domain / label).mkdir(parents=True)
        for number in range(3):
            photo(label, number).save(folder / "Photo" / label / f"p{number}.png")
            for copy in range(1, 3):
                photo(label, 10 * number + copy).save(folder / "Sketch" / label / f"p{number}-{copy}.png")
    return folder


def test_sketches_of_one_photo_share_its_origin(tmp_path: Path) -> None:
    folder = write_domains(tmp_path / "domains")
    sketches = embedded_set(SetSource("domains", folder, domain="Sketch"), TinyEncoder())
    assert sketches.origins is not None
    assert sketches.origins.tolist() == [number for number in range(9) for _ in range(2)]
    photos = embedded_set(SetSource("domains", folder, domain="Photo"), TinyEncoder())
    assert photos.origins is None
    assert len(photos.labels) == 9


def write_birds(folder: Path) -> Path:
    """Two classes, two birds each; the box is the right half."""
    (folder / "images").mkdir(parents=True)
    (folder / "split").mkdir()
    pixels = np.zeros((20, 40, 3), dtype=np.uint8)
    for number in range(1, 5):
        pixels[:, :20], pixels[:, 20:] = 255, 10 * number
        Image.fromarray(pixels).save(folder / "images" / f"{number}.png")
    for name, lines in {
        "images.txt": "{0} {0}.png",
        "image_class_labels.txt": "{0} {1}",
        "bounding_boxes.txt": "{0} 20 0 20 20",
    }.items():
        (folder / name).write_text("".join(lines.format(k, (k + 1) // 2) + "\n" for k in range(1, 5)))
    (folder / "classes.txt").write_text("1 wren\n2 owl\n")
    for split, first in (("train", 1), ("test", 3)):
        rows = "".join(f"{number}.png,{split}\n" for number in (first, first + 1))
        (folder / "split" / f"{split}.csv").write_text("filename,label\n" + rows)
    return folder


def test_only_the_box_and_only_the_split(tmp_path: Path) -> None:
    where = SetSource("cub", write_birds(tmp_path / "birds"), split="test")
    items = embedded_set(where, TinyEncoder())
    assert items.class_names == ("owl",)
    np.testing.assert_array_equal(items.features[:, :48], np.repeat([[30.0], [40.0]], 48, axis=1))


def test_the_first_of_each_class(tmp_path: Path) -> None:
    folder = write_photos(tmp_path / "photos")
    whole = embedded_folder(folder)
    few = embedded_set(SetSource("folder", folder, most=3), TinyEncoder())
    assert few.labels.tolist() == [0] * 3 + [1] * 3 + [2] * 3
    np.testing.assert_array_equal(few.features, whole.features[[0, 1, 2, 4, 5, 6, 8, 9, 10]])
    assert whole.images_digest != few.images_digest


def test_a_photo_that_cannot_be_read_is_named_and_nothing_is_kept(tmp_path: Path) -> None:
    folder = write_photos(tmp_path / "photos")
    (folder / "grass" / "1.png").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"grass/1\.png of .* cannot be read"):
        embedded_folder(folder)
    assert not list((home() / "embeddings").glob("*"))
