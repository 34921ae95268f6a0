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


def test_a_photo_that_cannot_be_read_is_named_and_nothing_is_kept(tmp_path: Path) -> None:
    folder = write_photos(tmp_path / "photos")
    (folder / "grass" / "1.png").write_bytes(b"no image")
    with pytest.raises(UserError, match=r"grass/1\.png of .* cannot be read"):
        embedded_folder(folder)
    assert not list((home() / "embeddings").glob("*"))
