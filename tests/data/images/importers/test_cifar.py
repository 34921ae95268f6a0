"""CIFAR-FS and FC100: pickled arrays, lists of classes, folders."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.data.images.importing import import_set
from fewset.data.images.store import SPLITS
from tests.helpers.image_arrays import assert_holds_arrays, random_pixels
from tests.helpers.trees import Tree, Write, as_directory, assert_nothing_was_written, both, picture

# As in the files that MetaOptNet passes on: the labels are of CIFAR-100, and those of a class lie apart.
LABELS = {"train": [9, 3, 9, 9, 3], "val": [5, 5], "test": [7, 1, 7]}
PREFIXES = {"cifar-fs": "CIFAR_FS", "fc100": "FC100"}


def pickles(prefix: str, top: str = "", size: int = 84) -> Tree:
    return {
        f"{top}{prefix}_{split}.pickle": pickle.dumps(
            {"data": random_pixels(LABELS, split)[:, :size, :size], "labels": LABELS[split]}, 2
        )
        for split in SPLITS
    }


def lists() -> Tree:
    names = {"train": ["apple", "bear"], "val": ["crab"], "test": ["dolphin"]}
    tree = {
        f"cifar100/splits/bertinetto/{split}.txt": "\n".join(names[split]).encode() + b"\n"
        for split in SPLITS
    }
    files = [f"cifar100/data/{name}/{n}.png" for each in names.values() for name in each for n in range(2)]
    return {**tree, **{file: picture(n) for n, file in enumerate([*files, "cifar100/data/unlisted/0.png"])}}


@both
@pytest.mark.parametrize("kind", PREFIXES)
@pytest.mark.parametrize("top", ["", "data/"])
def test_pickled_arrays(tmp_path: Path, write: Write, kind: str, top: str) -> None:
    got = import_set(kind, write(pickles(PREFIXES[kind], top), tmp_path), size=84)
    assert_holds_arrays(got, LABELS, {split: [f"{split}-{n}" for n in range(10)] for split in SPLITS})


def test_images_are_stored_as_they_are(tmp_path: Path) -> None:
    got = import_set("cifar-fs", as_directory(pickles("CIFAR_FS", size=32), tmp_path))
    (row,) = [row for row, label in enumerate(got.labels) if got.class_names[label] == "test-1"]
    np.testing.assert_array_equal(got.images[row], random_pixels(LABELS, "test")[1, :32, :32])


@both
def test_lists_of_classes(tmp_path: Path, write: Write) -> None:
    got = import_set("cifar-fs", write(lists(), tmp_path))
    found = {
        got.class_names[label]: SPLITS[split] for label, split in zip(got.labels, got.splits, strict=True)
    }
    assert found == {"apple": "train", "bear": "train", "crab": "val", "dolphin": "test"}
    assert len(got.labels) == 8


@pytest.mark.parametrize("kind", PREFIXES)
def test_folders_of_splits(tmp_path: Path, kind: str) -> None:
    tree = {f"{split}/{split}-class/{n}.png": picture(n) for split in SPLITS for n in range(2)}
    assert import_set(kind, as_directory(tree, tmp_path)).images.shape == (6, 32, 32, 3)


@pytest.mark.parametrize(
    ("kind", "tree", "complaint"),
    [
        ("fc100", pickles("CIFAR_FS"), "does not have the layout of FC100"),
        ("cifar-fs", {"apple/0.png": picture(0)}, "splits/bertinetto/train.txt"),
        (
            "cifar-fs",
            {k: v for k, v in lists().items() if "crab" not in k},
            "no folder of images in data/ for crab",
        ),
        ("fc100", {**pickles("FC100"), "FC100_val.pickle": pickle.dumps({"data": [1]})}, "expected content"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, kind: str, tree: Tree, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        import_set(kind, as_directory(tree, tmp_path))
    assert_nothing_was_written()
