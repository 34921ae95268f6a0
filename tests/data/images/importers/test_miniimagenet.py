"""Image files with tables, and the two pickled kinds."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.data.images.decoding import decode
from fewset.data.images.importers import IMPORTERS
from fewset.data.images.importing import import_set
from fewset.data.images.sources import open_source
from fewset.data.images.store import SPLITS
from tests.helpers.image_arrays import assert_holds_arrays, random_pixels
from tests.helpers.real_files import real_file
from tests.helpers.trees import (
    Tree,
    Write,
    as_directory,
    assert_holds,
    assert_nothing_was_written,
    both,
    rows_of,
    tables,
)

LABELS = {"train": [1, 0, 1, 1, 0, 0, 0], "val": [2, 2, 2], "test": [4, 3, 3, 4, 4]}
NAMES = ["n01532829", "n01558993", "n01704323", "n01749939", "n01770081"]
CATEGORY_FILES = dict(zip(SPLITS, ("train_phase_train", "val", "test"), strict=True))


def class_dict(split: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, label in enumerate(LABELS[split]):
        found.setdefault(NAMES[label], []).append(number)
    return found


def caches(top: str = "", **changes: Any) -> Tree:
    return {
        f"{top}mini-imagenet-cache-{split}.pkl": pickle.dumps(
            {"image_data": random_pixels(LABELS, split), "class_dict": class_dict(split), **changes}, 2
        )
        for split in SPLITS
    }


def categories(names: bool = True, **changes: Any) -> Tree:
    tree = {}
    for split, part in CATEGORY_FILES.items():
        content = {"data": random_pixels(LABELS, split), "labels": LABELS[split], **changes}
        if names:
            content["catname2label"] = {NAMES[label]: label for label in set(LABELS[split])}
        tree[f"miniImageNet_category_split_{part}.pickle"] = pickle.dumps(content, 2)
    other = {
        "data": random_pixels(LABELS, "val"),
        "labels": [0, 1, 0],
    }  # further images of the classes for training
    return {**tree, "miniImageNet_category_split_train_phase_val.pickle": pickle.dumps(other)}


@both
@pytest.mark.parametrize("top", ["", "cache/"])
def test_caches(tmp_path: Path, write: Write, top: str) -> None:
    got = import_set("miniimagenet", write(caches(top), tmp_path))
    assert got.images.shape[1] == 92
    assert got.manifest["source_size"] == {"smallest": 84, "median": 84}
    assert_holds_arrays(got, LABELS, dict.fromkeys(SPLITS, NAMES))


@both
def test_category_splits(tmp_path: Path, write: Write) -> None:
    got = import_set("miniimagenet", write(categories(), tmp_path), size=11)
    assert_holds_arrays(got, LABELS, dict.fromkeys(SPLITS, NAMES))


def test_category_splits_without_names(tmp_path: Path) -> None:
    got = import_set("miniimagenet", as_directory(categories(names=False), tmp_path), size=11)
    assert_holds_arrays(got, LABELS, {split: [f"{split}-{label}" for label in range(5)] for split in SPLITS})


@pytest.mark.parametrize(
    ("tree", "complaint"),
    [
        (caches(image_data=np.zeros((7, 84, 84), dtype=np.uint8)), r"shape \(7, 84, 84\) and type uint8"),
        (caches(image_data=np.zeros((7, 84, 84, 3))), "type float64"),
        (caches(image_data=[[1], [2, 3]]), "expected content"),
        (caches(class_dict={"a": [0, 1, 2, 3, 4, 5, 7]}), "7 images and 7 labels"),
        (caches(class_dict={"a": [0, 1, 2, 3], "b": [3, 4, 5, 6]}), "7 images and 8 labels"),
        (caches(class_dict={"a": 3}), "expected content"),
        (caches(class_dict=["a"]), "expected content"),
        (categories(labels=[0, 1]), "7 images and 2 labels"),
        (categories(labels=[[0], [1, 2]]), "expected content"),
        (categories(labels=np.array(3)), "expected content"),
        (categories(catname2label=3, names=False), "expected content"),
        ({**caches(), "mini-imagenet-cache-val.pkl": pickle.dumps({})}, r"cache-val.pkl in .*'class_dict'"),
        ({**caches(), "mini-imagenet-cache-val.pkl": pickle.dumps(print)}, r"asks for .*print"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, tree: Tree, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        import_set("miniimagenet", as_directory(tree, tmp_path))
    assert_nothing_was_written()


@pytest.mark.parametrize("missing", ["mini-imagenet-cache-val.pkl", "split/val.csv"])
def test_a_file_of_the_layout_is_missing(tmp_path: Path, missing: str) -> None:
    tree = caches() if missing in caches() else miniimagenet("")
    del tree[missing]
    with pytest.raises(UserError, match="layout of miniImageNet"):
        import_set("miniimagenet", as_directory(tree, tmp_path))


def miniimagenet(top: str) -> Tree:
    tree = tables()
    return {f"{top}split/{name}" if name.endswith("csv") else top + name: data for name, data in tree.items()}


@both
@pytest.mark.parametrize("top", ["", "miniimagenet/"])
def test_miniimagenet(tmp_path: Path, write: Write, top: str) -> None:
    tree = miniimagenet(top)
    got = import_set("miniimagenet", write(tree, tmp_path))
    assert got.images.shape[1:] == (92, 92, 3)
    assert_holds(got, tree, rows_of(f"{top}images/"))


@pytest.mark.slow
def test_the_real_miniimagenet() -> None:
    with open_source(real_file("miniimagenet.zip")) as source:
        entries = IMPORTERS["miniimagenet"].entries(source)
        by_split = {split: [entry for entry in entries if entry.split == split] for split in SPLITS}
        assert [len(by_split[split]) for split in SPLITS] == [38_400, 9_600, 12_000]
        classes = [{entry.class_name for entry in by_split[split]} for split in SPLITS]
        assert [len(names) for names in classes] == [64, 16, 20]
        assert len(set.union(*classes)) == 100
        for entry in entries[::997]:
            assert entry.file.startswith(f"miniimagenet/images/{entry.class_name}")
            pixels, side = decode(source.read(entry.file), 92)
            assert pixels.std() > 0
            assert side == 84
