"""Photos into folders: what a stop may leave behind, at any moment."""

import errno
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewset.classify.journal import checked_line
from fewset.classify.sorting import class_folders, link, move, sort_photos, sorted_to
from fewset.runtime.errors import UserError


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """Three photos of one class, two of which have one name."""
    monkeypatch.chdir(tmp_path)
    found = []
    for number, name in enumerate(("a/1.jpg", "b/1.jpg", "b/2.jpg")):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(f"photo {number}")
        found.append({"file": name, "class": "owl", "problem": None})
    return found


EXPECTED = {"out/owl/1.jpg": "photo 0", "out/owl/1 (2).jpg": "photo 1", "out/owl/2.jpg": "photo 2"}


def contents() -> dict[str, str]:
    return {str(path): path.read_text() for path in Path("out").rglob("*") if path.is_file()}


def write_log(*targets: Any, torn: str = "") -> Path:
    Path("log").write_bytes(b"".join(map(checked_line, targets)) + torn.encode())
    return Path("log")


@pytest.mark.parametrize("left", [None, "", "photo 1"], ids=["nothing", "an empty file", "a copy"])
@pytest.mark.parametrize("torn", ["", '"out/ow'])
def test_a_move_that_was_begun_is_made_anew(
    rows: list[dict[str, object]], left: str | None, torn: str
) -> None:
    """The second photo was about to go: the name was taken, or it was copied to another disk."""
    Path("out/owl").mkdir(parents=True)
    move(Path("a/1.jpg"), Path("out/owl/1.jpg"))
    if left is not None:
        Path("out/owl/1 (2).jpg").write_text(left)
    log = write_log("out/owl/1.jpg", "out/owl/1 (2).jpg", torn=torn)
    sort_photos(rows, Path("out"), move, log)
    assert contents() == EXPECTED
    assert list(sorted_to(log)) == list(EXPECTED)
    assert not any(Path(str(row["file"])).exists() for row in rows)


def test_what_came_to_the_place_in_between_stays(rows: list[dict[str, object]]) -> None:
    Path("out/owl").mkdir(parents=True)
    Path("out/owl/1.jpg").write_text("somebody else's")
    sort_photos(rows, Path("out"), move, write_log("out/owl/1.jpg"))
    assert contents() == {
        "out/owl/1.jpg": "somebody else's",
        "out/owl/1 (2).jpg": "photo 0",
        "out/owl/1 (3).jpg": "photo 1",
        "out/owl/2.jpg": "photo 2",
    }


def test_a_photo_that_is_gone_is_left_out(rows: list[dict[str, object]]) -> None:
    Path("b/1.jpg").unlink()
    sort_photos(rows, Path("out"), move, Path("log"))
    assert list(sorted_to(Path("log"))) == ["out/owl/1.jpg", None, "out/owl/2.jpg"]


def test_all_is_done_twice_alike(rows: list[dict[str, object]]) -> None:
    for place in (link, move):
        folder = Path(place.__name__)
        for _ in range(2):
            sort_photos(rows, folder, place, Path(f"{place.__name__}.log"))
        assert len(list((folder / "owl").iterdir())) == 3


def test_a_link_is_moved_as_a_link_to_the_same_photo(rows: list[dict[str, object]]) -> None:
    Path("links").mkdir()
    Path("links/1.jpg").symlink_to("../a/1.jpg")
    sort_photos([{**rows[0], "file": "links/1.jpg"}], Path("out"), move, Path("log"))
    assert Path("out/owl/1.jpg").is_symlink()
    assert Path("out/owl/1.jpg").read_text() == "photo 0"
    assert not Path("links/1.jpg").is_symlink()
    assert Path("a/1.jpg").exists()


def test_a_full_disk_is_told_by_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photo, target = tmp_path / "photo.png", tmp_path / "target.png"
    photo.touch()

    def full(source: Path, _: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(source))

    def other_disk(*_: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(shutil, "copy2", full)
    monkeypatch.setattr(Path, "replace", other_disk)
    with pytest.raises(OSError, match="No space left on device") as caught:
        move(photo, target)
    assert caught.value.filename == str(target)
    assert photo.exists()


def test_nothing_goes_through_a_link(rows: list[dict[str, object]]) -> None:
    Path("elsewhere").mkdir()
    Path("out").mkdir()
    Path("out/owl").symlink_to("../elsewhere")
    Path("log").symlink_to("elsewhere/log")
    with pytest.raises(UserError, match="out/owl is a link"):
        class_folders(Path("out"), np.array(["owl"]))
    for log in ("log", "other"):
        with pytest.raises(UserError, match="is a link"):
            sort_photos(rows, Path("out"), move, Path(log))
    assert not any(Path("elsewhere").iterdir())


@pytest.mark.parametrize("target", ["mine/empty.txt", "out/../mine/empty.txt", "../mine", 7, {"a": 1}])
def test_a_log_that_leads_elsewhere_is_refused(rows: list[dict[str, object]], target: Any) -> None:
    """An empty file, or a copy of the photo, would be taken for what a stop left, and removed."""
    Path("mine").mkdir()
    Path("mine/empty.txt").touch()
    with pytest.raises(UserError, match="is not what a stopped run left"):
        sort_photos(rows, Path("out"), move, write_log(target))
    assert Path("mine/empty.txt").exists()


def test_a_damaged_line_of_the_log_is_refused(rows: list[dict[str, object]]) -> None:
    Path("log").write_bytes(checked_line("out/owl/1.jpg").replace(b"1.jpg", b"7.jpg"))
    with pytest.raises(UserError, match="is not what a stopped run left"):
        sort_photos(rows, Path("out"), move, Path("log"))
