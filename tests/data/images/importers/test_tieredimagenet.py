import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.data.images.importing import import_set
from fewset.data.images.store import SPLITS
from tests.helpers.image_arrays import assert_holds_arrays, random_pixels
from tests.helpers.trees import (
    Tree,
    Write,
    as_directory,
    assert_holds,
    assert_nothing_was_written,
    both,
    picture,
)

NAMES = {"train": ["robin", "crane", "crane"], "val": ["tench"], "test": ["kite", "drake"]}
# As in the real files, the images of a class need not lie together.
LABELS = {"train": [2, 0, 1, 0, 2], "val": [0, 0, 0], "test": [1, 0, 1, 1]}


def png(image: np.ndarray) -> np.ndarray:
    """As OpenCV encodes it: one column of bytes."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG")
    return np.frombuffer(buffer.getvalue(), dtype=np.uint8)[:, None].copy()


def labels(split: str) -> dict[str, Any]:
    return {
        "label_specific": np.array(LABELS[split], dtype=np.int32),
        "label_general": np.zeros(len(LABELS[split]), dtype=np.int32),
        "label_specific_str": NAMES[split],
        "label_general_str": ["bird"],
    }


def pngs(prefix: str = "", protocol: int = 2) -> Tree:
    tree = {}
    for split in SPLITS:
        files = [png(image) for image in random_pixels(LABELS, split)]
        tree[f"{prefix}{split}_images_png.pkl"] = pickle.dumps(files, protocol)
        tree[f"{prefix}{split}_labels.pkl"] = pickle.dumps(labels(split), protocol)
    return {**tree, f"{prefix}class_names.txt": b"robin\n", f"{prefix}synsets.txt": b"n01558993\n"}


def arrays(compressed: bool = False, only_labels: bool = False) -> Tree:
    """Blue first, as OpenCV has it."""
    tree = {}
    for split in SPLITS:
        buffer = io.BytesIO()
        (np.savez_compressed if compressed else np.savez)(
            buffer, images=random_pixels(LABELS, split)[..., ::-1]
        )
        tree[f"{split}_images.npz"] = buffer.getvalue()
        content = {"labels": LABELS[split]} if only_labels else labels(split)
        tree[f"{split}_labels.pkl"] = pickle.dumps(content, 2)
    return tree


UNIQUE = {**NAMES, "train": ["robin", "crane 1", "crane 2"]}


@both
@pytest.mark.parametrize("prefix", ["", "tiered-imagenet/", "tiered-imagenet-"])
def test_pickled_png_files(tmp_path: Path, write: Write, prefix: str) -> None:
    got = import_set("tieredimagenet", write(pngs(prefix), tmp_path))
    assert got.images.shape[1] == 84
    assert_holds_arrays(got, LABELS, UNIQUE)
    assert got.manifest["source_size"] == {"smallest": 84, "median": 84}


@both
@pytest.mark.parametrize("compressed", [False, True])
def test_npz_arrays_become_red_first(tmp_path: Path, write: Write, compressed: bool) -> None:
    got = import_set("tieredimagenet", write(arrays(compressed), tmp_path))
    assert_holds_arrays(got, LABELS, UNIQUE)


def test_classes_of_a_category_are_related(tmp_path: Path) -> None:
    categories = {"train": [1, 0, 1, 0, 1], "val": [0, 0, 0], "test": [0, 0, 0, 0]}  # cranes, birds
    tree = pngs()
    for split in SPLITS:
        content = {**labels(split), "label_general": np.array(categories[split])}
        tree[f"{split}_labels.pkl"] = pickle.dumps(content)
    got = import_set("tieredimagenet", as_directory(tree, tmp_path), size=11)
    assert got.nearness is not None
    near = {
        got.class_names[one]: {got.class_names[other] for other in others}
        for one, others in enumerate(got.nearness.nearest)
    }
    assert near["crane 1"] == {"crane 2"}
    assert near["robin"] == near["tench"] == set()
    assert near["kite"] == {"drake"}


def test_labels_without_names(tmp_path: Path) -> None:
    got = import_set("tieredimagenet", as_directory(arrays(only_labels=True), tmp_path), size=11)
    assert_holds_arrays(got, LABELS, {split: [f"{split}-{label}" for label in range(3)] for split in SPLITS})


def test_a_damaged_png_is_a_bad_image(tmp_path: Path) -> None:
    tree = pngs()
    files = [png(image) for image in random_pixels(LABELS, "val")]
    tree["val_images_png.pkl"] = pickle.dumps([files[0], files[1][:100], files[2]])
    with pytest.raises(
        UserError, match=r"1 of 12 images cannot be decoded(.|\n)*val_images_png.pkl/000001: "
    ):
        import_set("tieredimagenet", as_directory(tree, tmp_path))


@pytest.mark.parametrize(
    ("file", "content", "complaint"),
    [
        (
            "val_images_png.pkl",
            pickle.dumps([png(random_pixels(LABELS, "val")[0])]),
            "1 images, expected 3",
        ),
        ("val_images_png.pkl", pickle.dumps(print), r"asks for .*print"),
        (
            "val_labels.pkl",
            pickle.dumps({"names": []}),
            r"val_labels.pkl in .*'labels'",
        ),
        (
            "val_labels.pkl",
            pickle.dumps({**labels("val"), "label_specific": np.array([0, 1, 0])}),
            "out of range",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, file: str, content: bytes, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        import_set("tieredimagenet", as_directory({**pngs(), file: content}, tmp_path))
    assert_nothing_was_written()


@pytest.mark.parametrize("content", [b"x", None, np.zeros((3, 7)), np.array([None])])
def test_a_bad_npz(tmp_path: Path, content: Any) -> None:
    tree = arrays()
    if not isinstance(content, bytes):
        buffer = io.BytesIO()
        np.savez(buffer, **({} if content is None else {"images": content}))
        content = buffer.getvalue()
    tree["train_images.npz"] = content
    with pytest.raises(UserError, match=r"train_images.npz (in .*expected content|have shape)"):
        import_set("tieredimagenet", as_directory(tree, tmp_path))
    assert_nothing_was_written()


def images(*classes: str, shape: tuple[int, ...] = (97, 131, 3)) -> Tree:
    return {
        f"{name}/{item}.JPEG": picture(len(name) + item, "JPEG", shape)
        for name in classes
        for item in range(2)
    }


@both
@pytest.mark.parametrize("top", ["", "tiered/"])
def test_a_folder_a_class(tmp_path: Path, write: Write, top: str) -> None:
    tree = {
        top + file: data for file, data in images("train/n01", "train/n02", "val/n03", "test/n04").items()
    }
    got = import_set("tieredimagenet", write(tree, tmp_path))
    assert got.images.shape[1] == 84
    assert_holds(got, tree, {(*file.removeprefix(top).split("/")[:2], file) for file in tree})  # type: ignore[misc]


@both
@pytest.mark.parametrize("place", ["", "train/", "ILSVRC/train/"])
def test_imagenet_with_the_lists_of_classes(tmp_path: Path, write: Write, place: str) -> None:
    lists = {"train": ("n01", "n05"), "val": ("n03",), "test": ("n04",)}
    tree = images(*(f"{place}n0{number}" for number in range(1, 7)))
    tree |= {f"{split}.csv": "".join(f"{name},n9\n" for name in lists[split]).encode() for split in SPLITS}
    tree[f"{place}n01/grey.JPEG"] = picture(1, "JPEG", (31, 47), "L")
    tree[f"{place}n01/cmyk.JPEG"] = picture(2, "JPEG", (5, 61, 3), "CMYK")
    expected = {
        (split, name, file)
        for file in tree
        for split, names in lists.items()
        for name in names
        if file.startswith(f"{place}{name}/")
    }
    assert_holds(import_set("tieredimagenet", write(tree, tmp_path), size=11), tree, expected)


def test_a_listed_class_without_images_is_named(tmp_path: Path) -> None:
    tree = {
        **images("n01", "n02"),
        "train.csv": b"n01,n9\nn07,n9\n",
        "val.csv": b"n02,n9\n",
        "test.csv": b"n08,n9\n",
    }
    with pytest.raises(UserError, match=r"no images of 2 classes of .*: n07, n08"):
        import_set("tieredimagenet", as_directory(tree, tmp_path))
