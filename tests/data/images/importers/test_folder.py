"""Folders of classes, with a split that is drawn or given."""

from pathlib import Path

import pytest

from fewset.core.errors import UserError
from fewset.data.images.importing import import_set, split_classes
from fewset.data.images.store import SPLITS
from tests.helpers.trees import (
    Write,
    as_directory,
    as_zip,
    assert_holds,
    assert_nothing_was_written,
    both,
    folder,
    picture,
)


@both
@pytest.mark.parametrize("top", ["", "pets-main/"])
@pytest.mark.parametrize("seed", [0, 1])
def test_folder_with_a_drawn_class_split(tmp_path: Path, write: Write, top: str, seed: int) -> None:
    tree = {top + name: data for name, data in folder().items()}
    got = import_set("folder", write(tree, tmp_path), size=11, seed=seed)
    drawn = split_classes(7, seed)
    assert_holds(
        got,
        tree,
        {(SPLITS[drawn[c]], f"c{c}", f"{top}c{c}/{item}.png") for c in range(7) for item in range(3)},
    )
    assert got.name == "pets"
    assert [got.manifest["counts"][split]["classes"] for split in SPLITS] == [3, 2, 2]


@both
@pytest.mark.parametrize("top", ["", "pets-main/"])
@pytest.mark.parametrize("given", [("train", "val", "test"), ("train", "test"), ("test",)])
def test_folder_with_given_splits(tmp_path: Path, write: Write, top: str, given: tuple[str, ...]) -> None:
    places = {
        f"{top}{given[label % len(given)]}/c{label}/{item}.png" for label in range(5) for item in range(2)
    }
    tree = {place: picture(seed) for seed, place in enumerate(sorted(places))}
    got = import_set("folder", write(tree, tmp_path), size=11)
    assert_holds(got, tree, {(*place.removeprefix(top).split("/")[:2], place) for place in places})  # type: ignore[misc]


def test_the_digest_is_the_same_for_a_directory_and_a_zip(tmp_path: Path) -> None:
    backwards = dict(reversed(folder().items()))
    digests = {
        import_set("folder", as_directory(folder(), tmp_path), "a", 11).digest,
        import_set("folder", as_zip(backwards, tmp_path), "b", 11).digest,
    }
    assert len(digests) == 1


@both
def test_folder_ignores_what_is_not_an_image(tmp_path: Path, write: Write) -> None:
    rubbish = (
        "__MACOSX/c0/._0.png",
        "c0/.hidden.png",
        ".git/c9/0.png",
        "c0/Thumbs.db",
        "README.md",
        "c1/a.txt",
    )
    got = import_set("folder", write({**folder(), **dict.fromkeys(rubbish, b"x")}, tmp_path), size=11)
    assert got.manifest["items"] == 21
    assert got.class_names == tuple(f"c{label}" for label in range(7))


def test_folder_takes_every_known_kind_of_image(tmp_path: Path) -> None:
    kinds = {"jpg": "JPEG", "JPEG": "JPEG", "Png": "PNG", "bmp": "BMP", "gif": "GIF", "tif": "TIFF"}
    kinds |= {"tiff": "TIFF", "webp": "WEBP"}
    tree = {f"train/c/{number}.{end}": picture(number, kinds[end]) for number, end in enumerate(kinds)}
    got = import_set("folder", as_directory(tree, tmp_path), size=11)
    assert_holds(got, tree, {("train", "c", name) for name in tree})


@pytest.mark.parametrize(
    "stray", ["stray.png", "c0/deeper/stray.png", "other/train/c0/stray.png", "train/c0/stray.png"]
)
def test_folder_names_an_image_out_of_place(tmp_path: Path, stray: str) -> None:
    with pytest.raises(UserError, match=f"{stray} in .*pets does not fit"):
        import_set("folder", as_directory({**folder(), stray: picture(0)}, tmp_path))
    assert_nothing_was_written()


def test_a_class_in_two_splits_is_refused(tmp_path: Path) -> None:
    tree = {"train/cat/1.png": picture(1), "train/dog/1.png": picture(2), "test/dog/2.png": picture(3)}
    with pytest.raises(UserError, match=r"'dog' is in two splits.*classes it has not seen"):
        import_set("folder", as_directory(tree, tmp_path))
    assert_nothing_was_written()


@both
@pytest.mark.parametrize("top", ["", "train/"])
def test_folders_of_folders_are_groups_of_related_classes(tmp_path: Path, write: Write, top: str) -> None:
    groups = {"gull": ("herring", "ring-billed"), "warbler": ("canada", "hooded", "palm")}
    tree = {
        f"{top}{group}/{one}/{item}.png": picture(item)
        for group, members in groups.items()
        for one in members
        for item in range(2)
    }
    got = import_set("folder", write(tree, tmp_path), size=11)
    assert got.class_names == ("canada", "herring", "hooded", "palm", "ring-billed")
    assert got.nearness is not None
    assert got.nearness.nearest == ((2, 3), (4,), (0, 3), (0, 2), (1,))


def test_a_class_in_two_groups_is_named(tmp_path: Path) -> None:
    tree = {"a/x/1.png": picture(0), "b/x/2.png": picture(1)}
    with pytest.raises(UserError, match=r"the class 'x' in .* is in two groups, 'a' and 'b'"):
        import_set("folder", as_directory(tree, tmp_path), size=11)
