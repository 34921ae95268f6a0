"""Which folder is the class of a photo, and what is ignored, with a warning."""

import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from fewset.classify.photos.labelled import opened_classes
from fewset.core.errors import UserError


def write(folder: Path, files: Iterable[str]) -> Path:
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()
    return folder


def classes(photos: Path, classes_from: str | None = None) -> dict[str, str]:
    with opened_classes(photos, classes_from) as (opened, labels):
        return {photo.name: label for photo, label in zip(opened, labels, strict=True)}


NESTED = ("birds/day/eagle/1.jpg", "birds/night/owl/1.jpg", "cats/tiger/1.jpg", "cats/tiger/2.jpg")


@pytest.mark.parametrize(
    ("classes_from", "expected"),
    [
        (None, ["eagle", "owl", "tiger", "tiger"]),
        ("folder", ["eagle", "owl", "tiger", "tiger"]),
        ("top", ["birds", "birds", "cats", "cats"]),
        ("path", ["birds/day/eagle", "birds/night/owl", "cats/tiger", "cats/tiger"]),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_nested_folders(tmp_path: Path, classes_from: str | None, expected: list[str], zipped: bool) -> None:
    photos = write(tmp_path / "photos", NESTED)
    if zipped:
        photos = tmp_path / "photos.zip"
        with zipfile.ZipFile(photos, "w") as archive:
            for file in NESTED:
                archive.writestr(f"around/{file}", b"")
    assert list(classes(photos, classes_from).values()) == expected


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        (("owl/2023/1.jpg", "jay/2023/1.jpg"), "the folders jay/2023 and owl/2023, whose names are equal"),
        (("owl/1.jpg", "owl/close/1.jpg", "jay/1.jpg"), "both owl and owl/close have photos"),
    ],
)
def test_folders_in_doubt_are_an_error_that_names_the_option(
    tmp_path: Path, files: tuple[str, ...], complaint: str
) -> None:
    photos = write(tmp_path / "photos", files)
    with pytest.raises(UserError, match=complaint) as caught:
        classes(photos)
    assert "--classes-from folder (owl), top (birds) or path" in str(caught.value)
    assert set(classes(photos, "top").values()) == {"owl", "jay"}
    assert len(classes(photos, "folder")) == len(files)


def test_what_is_ignored_is_named(tmp_path: Path) -> None:
    files = (
        "loose.jpg",
        "owl/1.jpg",
        "jay/1.jpg",
        "jay/hop.MP4",
        "notes/read me.txt",
        "owl/more/films/a.mov",
    )
    photos = write(tmp_path / "photos", files)
    (photos / "crow" / "empty").mkdir(parents=True)
    with pytest.warns(UserWarning, match="photos: ") as caught:
        assert classes(photos) == {"owl/1.jpg": "owl", "jay/1.jpg": "jay"}
    told = [str(warning.message).removeprefix(f"{photos}: ") for warning in caught]
    assert sorted(told) == [
        "films are ignored: 2 (jay/hop.MP4, owl/more/films/a.mov)",
        "folders without photos are ignored: 3 (crow, notes, owl/more)",
        "left out photos beside the folders of the classes: 1 (loose.jpg)",
    ]


def test_empty_folders_of_a_zip_file_are_named_too(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        for name in ("owl/", "owl/1.jpg", "jay/1.jpg", "crow/"):
            archive.writestr(name, b"")
    with pytest.warns(UserWarning, match=r"folders without photos are ignored: 1 \(crow\)"):
        assert len(classes(tmp_path / "photos.zip")) == 2


def test_what_has_no_classes(tmp_path: Path) -> None:
    splits = write(tmp_path / "splits", ["train/owl/1.jpg", "test/owl/2.jpg"])
    with pytest.raises(UserError, match=r"has splits, expected a folder a class; take one of them: .*/test"):
        classes(splits)
    with pytest.raises(UserError, match="are not in folders; expected a folder with a folder a class"):
        classes(write(tmp_path / "flat", ["1.jpg", "2.jpg"]))
    with pytest.raises(UserError, match=r"1\.jpg is a photo without a label"):
        classes(tmp_path / "flat" / "1.jpg")
    with pytest.raises(UserError, match=r"unknown place of the classes 'tip'.*Did you mean 'top'"):
        classes(splits, "tip")
    (tmp_path / "a.csv").write_text("path,label\n1.jpg,owl\n")
    with pytest.raises(UserError, match="names the classes itself; leave out --classes-from"):
        classes(tmp_path / "a.csv", "top")
