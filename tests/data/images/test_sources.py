"""Directories and zip files as sources of images: what is read, and what is not waited for."""

import errno
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from fewset.core.errors import UserError
from fewset.data.images import sources
from fewset.data.images.sources import open_source
from tests.helpers.disks import SPECIAL, make_special


def files_of(path: Path) -> list[str]:
    with open_source(path) as source:
        return source.files


def write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(path.name.encode())


def test_links_to_classes_are_followed(tmp_path: Path) -> None:
    for name in ("cat/1.png", "cat/more/2.png", "dog/1.png"):
        write(tmp_path / "all" / name)
    for split, name in (("train", "cat"), ("test", "dog")):
        (tmp_path / "set" / split).mkdir(parents=True)
        (tmp_path / "set" / split / name).symlink_to(tmp_path / "all" / name)
    assert files_of(tmp_path / "set") == ["test/dog/1.png", "train/cat/1.png", "train/cat/more/2.png"]


def test_links_in_a_circle_have_an_end(tmp_path: Path) -> None:
    """Each of 13 folders links to all of them and to the one above: a walk of its own way never ends."""
    names = [f"class{number:02}" for number in range(13)]
    for name in names:
        write(tmp_path / name / "1.png")
        (tmp_path / name / "above").symlink_to(tmp_path)
        for other in names:
            (tmp_path / name / f"to-{other}").symlink_to(tmp_path / other)
    files = files_of(tmp_path)
    assert {f"{name}/1.png" for name in names} <= set(files)
    assert len(files) <= 13 + 13


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its class would be missing. Hidden folders hold no photos, so nobody looks into them."""
    for name in ("cat/1.png", "dog/1.png", ".trash/1.png"):
        write(tmp_path / name)
    closed = {str(tmp_path / ".trash")}
    scandir = os.scandir

    def guarded(path: Any) -> Any:
        if str(path) in closed:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    assert files_of(tmp_path) == ["cat/1.png", "dog/1.png"]
    closed.add(str(tmp_path / "dog"))
    with pytest.raises(UserError, match="dog: Permission denied; change its permissions"):
        files_of(tmp_path)


@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_file_is_not_read(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "cat" / "1.png"
    path.parent.mkdir()
    make_special(path, kind)
    with open_source(tmp_path) as source:
        for read in (source.read, source.open):
            with pytest.raises(OSError, match="is not a regular file"):
                read("cat/1.png")
    with pytest.raises(UserError, match="neither a directory nor a complete zip file"):
        files_of(path)


def test_no_more_is_read_than_an_image_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LARGEST", 7)
    for name, size in (("a.png", 7), ("b.png", 8)):
        (tmp_path / name).write_bytes(bytes(size))
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for name in ("a.png", "b.png"):
            archive.write(tmp_path / name, name)
    for path in (tmp_path, tmp_path / "all.zip"):
        with open_source(path) as source:
            assert source.read("a.png") == bytes(7)
            with pytest.raises(OSError, match="file of 8 bytes, more than the limit of 7"):
                source.read("b.png")
