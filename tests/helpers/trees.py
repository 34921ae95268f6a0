"""Sources for importers: small trees of files, written as a directory or as a zip file."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fewset.data.images.decoding import decode
from fewset.data.images.store import SPLITS, ImageSet, list_sets
from fewset.data.manifest import home
from tests.helpers.containers import packed_zip

Tree = dict[str, bytes]
Write = Callable[[Tree, Path], Path]


def picture(seed: int, kind: str = "PNG", shape: tuple[int, ...] = (17, 13, 3), mode: str = "RGB") -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(buffer, kind)
    return buffer.getvalue()


def folder(classes: int = 7, each: int = 3) -> Tree:
    return {
        f"c{label}/{item}.png": picture(label * each + item)
        for label in range(classes)
        for item in range(each)
    }


def write_tree(tree: Tree, root: Path) -> Path:
    for name, data in tree.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    return root


def as_directory(tree: Tree, place: Path) -> Path:
    (place / "pets").mkdir(parents=True)
    return write_tree(tree, place / "pets")


def as_zip(tree: Tree, place: Path) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    (place / "pets.zip").write_bytes(packed_zip(list(tree.items())))
    return place / "pets.zip"


both = pytest.mark.parametrize("write", [as_directory, as_zip])


def assert_holds(got: ImageSet, tree: Tree, expected: set[tuple[str, str, str]]) -> None:
    """The items are those of `expected`, (split, class, file) each, sorted, with the pixels of `tree`."""
    items = sorted(expected, key=lambda item: (SPLITS.index(item[0]), item[1], item[2]))
    assert list(got.class_names) == sorted({class_name for _, class_name, _ in items})
    assert [SPLITS[split] for split in got.splits] == [split for split, _, _ in items]
    assert [got.class_names[label] for label in got.labels] == [class_name for _, class_name, _ in items]
    for image, (_, _, file) in zip(got.images, items, strict=True):
        np.testing.assert_array_equal(image, decode(tree[file], got.images.shape[1]).pixels)


def assert_nothing_was_written() -> None:
    assert not list(home().rglob("*.*"))
    assert list_sets() == []


def tables(head: str = "filename,label", ends: str = "\n", images: str = "images/") -> Tree:
    tree: Tree = {}
    for split, labels in {"train": "ab", "val": "c", "test": "de"}.items():
        names = [f"{label}{number}.png" for label in labels for number in range(3)]
        rows = [head, *(f"{name},class {name[0]}" for name in names)]
        tree[f"{split}.csv"] = (ends.join(rows) + ends).encode()
        tree |= {images + name: picture(ord(name[0]) * 10 + int(name[1])) for name in names}
    return tree


def rows_of(images: str, splits: tuple[str, ...] = SPLITS) -> set[tuple[str, str, str]]:
    labels = {"train": "ab", "val": "c", "test": "de"}
    return {
        (split, f"class {label}", f"{images}{label}{number}.png")
        for split in splits
        for label in labels[split]
        for number in range(3)
    }
