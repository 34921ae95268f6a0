from pathlib import Path

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.data.images.decoding import Box, decode
from fewset.data.images.importing import import_set, split_classes
from fewset.data.images.store import SPLITS, ImageSet
from tests.helpers.trees import Tree, Write, as_directory, assert_nothing_was_written, both, picture

CLASSES = [
    f"{number:03}.{name}" for number, name in enumerate(("Albatross", "Auklet", "Tern", "Wren", "Ani"), 1)
]
# The third reaches beyond an image of 17 x 13 pixels, as some of the real ones do.
BOXES = {1: Box(1.0, 2.0, 9.0, 13.0), 2: Box(0.0, 0.0, 13.0, 17.0), 3: Box(4.0, 5.0, 40.0, 40.0)}


def file_of(name: str, item: int) -> str:
    return f"{name}/{name[4:]}_{item:04}_{int(name[:3]) * 100 + item}.jpg"


def cub(top: str = "CUB_200_2011/") -> Tree:
    """The real layout; the images of the last class are grey and CMYK and of odd sizes."""
    tree: Tree = {}
    images, labels, boxes = [], [], []
    for label, name in enumerate(CLASSES, 1):
        for item, box in BOXES.items():
            number = len(images) + 1
            images.append(f"{number} {file_of(name, item)}")
            labels.append(f"{number} {label}")
            boxes.append(f"{number} {' '.join(map(str, box))}")
            tree[f"{top}images/{file_of(name, item)}"] = picture(number, "JPEG")
    last = [f"{top}images/{file_of(CLASSES[-1], item)}" for item in BOXES]
    tree[last[0]] = picture(1, "JPEG", (31, 29), "L")
    tree[last[1]] = picture(2, "JPEG", (23, 61, 3), "CMYK")
    tables = {
        "images.txt": images,
        "image_class_labels.txt": labels,
        "bounding_boxes.txt": boxes,
        "classes.txt": [f"{label} {name}" for label, name in enumerate(CLASSES, 1)],
        "train_test_split.txt": [f"{number} 1" for number in range(1, len(images) + 1)],
    }
    tree |= {f"{top}{name}": "\n".join([*lines, ""]).encode() for name, lines in tables.items()}
    return {**tree, f"{top}README": b"x", "attributes.txt": b"x"}


def assert_birds(got: ImageSet, tree: Tree, splits: dict[str, str], top: str = "CUB_200_2011/") -> None:
    """The items are those of the classes in `splits`, each cut to its box."""
    row = 0
    for split in SPLITS:
        for name in sorted(name for name in splits if splits[name] == split):
            for item, box in BOXES.items():
                assert SPLITS[got.splits[row]] == split
                assert got.class_names[got.labels[row]] == name
                data = tree[f"{top}images/{file_of(name, item)}"]
                np.testing.assert_array_equal(got.images[row], decode(data, 11, box).pixels)
                row += 1
    assert row == len(got.labels)


@both
@pytest.mark.parametrize("top", ["", "CUB_200_2011/", "data/CUB_200_2011/"])
@pytest.mark.parametrize("seed", [0, 1])
def test_cub(tmp_path: Path, write: Write, top: str, seed: int) -> None:
    tree = cub(top)
    got = import_set("cub", write(tree, tmp_path), size=11, seed=seed)
    drawn = split_classes(5, seed, (100, 50, 50))
    assert_birds(got, tree, {name: SPLITS[drawn[n]] for n, name in enumerate(CLASSES)}, top)


def split_tables(head: str, place: str, given: dict[str, list[str]], folder: str | None = None) -> Tree:
    """Tables of bare names, or of paths that begin with `folder`."""

    def written(name: str, item: int) -> str:
        return file_of(name, item).rpartition("/")[2] if folder is None else folder + file_of(name, item)

    return {
        f"{place}split/{split}.csv": "\n".join(
            [head, *(f"{written(name, item)},{name},7,3" for name in names for item in BOXES)]
        ).encode()
        for split, names in given.items()
    }


GIVEN = {"train": [CLASSES[3], CLASSES[0]], "val": [CLASSES[4]], "test": [CLASSES[1]]}  # not the third class
FOLDERS = [None, "images/", "D:\\images\\"]


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("place", ["", "CUB_200_2011/"])
@pytest.mark.parametrize("head", ["filename,label", "filename, label, concept_label"])
def test_given_splits(tmp_path: Path, place: str, head: str, folder: str | None) -> None:
    """As the authors of FEAT give them (base names, a space in the head line, further columns), or paths."""
    tree = {**cub(), **split_tables(head, place, GIVEN, folder)}
    got = import_set("cub", as_directory(tree, tmp_path), size=11)
    assert_birds(got, tree, {name: split for split, names in GIVEN.items() for name in names})


@pytest.mark.parametrize(
    ("table", "content", "complaint"),
    [
        ("CUB_200_2011/classes.txt", b"1 001.Albatross\n", r"image 4 \(002.Auklet/.*\) of .* has no class"),
        ("CUB_200_2011/image_class_labels.txt", b"1 1\n", r"image 2 .* has no class"),
        ("CUB_200_2011/bounding_boxes.txt", b"1 2 3 4 5\n", r"image 2 .*no four numbers"),
        ("CUB_200_2011/bounding_boxes.txt", b"1 2 3 4\n", r"image 1 .*no four numbers"),
        ("CUB_200_2011/images.txt", b"1 001.Albatross/none.jpg\n", r"none.jpg of images.txt is not in"),
        ("split/train.csv", b"filename,label\nnone.jpg,a\n", r"train.csv, line 2 in .*none.jpg is no image"),
        ("split/train.csv", b"filename,kind\nnone.jpg,a\n", r"train.csv in .* has no column 'label'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, table: str, content: bytes, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        import_set("cub", as_directory({**cub(), table: content}, tmp_path))
    assert_nothing_was_written()


def test_an_image_in_two_splits(tmp_path: Path) -> None:
    given = {"train": CLASSES[:2], "test": CLASSES[1:]}
    tables = split_tables("filename,label", "", given)
    with pytest.raises(UserError, match=r"test.csv, line 2 in .*Auklet_0001_201.jpg is for train, too"):
        import_set("cub", as_directory({**cub(), **tables}, tmp_path))
