"""Photos into folders: what a stop may leave behind, at any moment."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewset.classify.photos.sources import file_state
from fewset.classify.predict.answers import Row
from fewset.classify.predict.sort import (
    Place,
    class_folders,
    link,
    move,
    plan_sorting,
    planned_by,
    read_plan,
    sort_photos,
    write_plan,
)
from fewset.core.errors import UserError

OUT, PLAN = Path("out"), Path("plan")


def answer(name: str) -> Row:
    empty = dict.fromkeys(("probability", "closeness", "nearest", "problem"))
    return {"file": name, "class": "owl", "top": [], **empty}


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    """Three photos of one class, two of which have one name."""
    monkeypatch.chdir(tmp_path)
    return write_photos_again()


def write_photos_again() -> list[Row]:
    for number, name in enumerate(("a/1.jpg", "b/1.jpg", "b/2.jpg")):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(f"photo {number}")
    return [answer(name) for name in ("a/1.jpg", "b/1.jpg", "b/2.jpg")]


EXPECTED = {"out/owl/1.jpg": "photo 0", "out/owl/1 (2).jpg": "photo 1", "out/owl/2.jpg": "photo 2"}


def contents() -> dict[str, str]:
    return {str(path): path.read_text() for path in OUT.rglob("*") if path.is_file()}


def write(rows: list[Row], place: Place = move) -> None:
    states = [file_state(row["file"]) for row in rows]
    write_plan(PLAN, "key", plan_sorting(zip(rows, states, strict=True), OUT, place))


def sort(place: Place = move) -> list[str | None]:
    return list(sort_photos(read_plan(PLAN, OUT, lambda _: True), place))


def no_hard_links(*_: Any, **__: Any) -> None:
    raise OSError(errno.EXDEV, "Invalid cross-device link")


def half(source: Path, copy: Path) -> None:
    Path(copy).write_bytes(Path(source).read_bytes()[:4])


def stopped_at(step: int, monkeypatch: pytest.MonkeyPatch, run: Callable[[], object]) -> bool:
    """Whether the run was stopped, as by a kill, before the operation on files of that number."""
    count = 0

    def counted(usual: Callable[..., Any], begun: Callable[..., Any] | None = None) -> Callable[..., Any]:
        def operation(*given: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count == step:
                if begun:
                    begun(*given)
                raise KeyboardInterrupt
            return usual(*given, **named)

        return operation

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", counted(os.link))
        patched.setattr(shutil, "copy2", counted(shutil.copy2, half))
        patched.setattr(os, "fsync", counted(os.fsync))
        patched.setattr(Path, "replace", counted(Path.replace))
        patched.setattr(Path, "unlink", counted(Path.unlink))
        patched.setattr(Path, "mkdir", counted(Path.mkdir))
        try:
            run()
        except KeyboardInterrupt:
            return True
    return False


@pytest.mark.parametrize("other_disk", [False, True])
@pytest.mark.parametrize("second", [1, 2, 3, 4, 5])
def test_killed_twice_anywhere_nothing_is_lost_or_empty(
    other_disk: bool, second: int, rows: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    if other_disk:
        monkeypatch.setattr(os, "link", no_hard_links)
    first, stopped = 1, True
    while stopped:
        write(rows)
        stopped = stopped_at(first, monkeypatch, sort)
        whole = {"photo 0", "photo 1", "photo 2"}
        for _ in range(2):
            visible = {name: text for name, text in contents().items() if "/." not in name}
            assert set(visible.values()) <= whole
            kept = {Path(str(row["file"])).read_text() for row in rows if Path(str(row["file"])).exists()}
            assert kept | set(visible.values()) == whole
            stopped_at(second, monkeypatch, sort)
        assert sort() == list(EXPECTED)
        assert contents() == EXPECTED
        assert not any(Path(str(row["file"])).exists() for row in rows)
        shutil.rmtree(OUT)
        write_photos_again()
        first += 1
    assert first > 6


def test_what_came_to_the_place_in_between_stays(rows: list[Row]) -> None:
    write(rows)
    Path("out/owl").mkdir(parents=True)
    Path("out/owl/1.jpg").write_text("somebody else's")
    assert sort() == ["out/owl/1 (2).jpg", "out/owl/1 (3).jpg", "out/owl/2.jpg"]
    assert contents() == {
        "out/owl/1.jpg": "somebody else's",
        "out/owl/1 (2).jpg": "photo 0",
        "out/owl/1 (3).jpg": "photo 1",
        "out/owl/2.jpg": "photo 2",
    }


def test_a_photo_that_is_gone_or_replaced_is_left_out(rows: list[Row]) -> None:
    write(rows)
    Path("b/1.jpg").unlink()
    Path("b/2.jpg").write_text("another photo")
    assert sort() == ["out/owl/1.jpg", None, None]
    assert Path("b/2.jpg").read_text() == "another photo"


def test_all_is_done_twice_alike(rows: list[Row]) -> None:
    for place in (link, move):
        write(rows, place)
        assert sort(place) == sort(place)
        assert len(list(Path("out/owl").iterdir())) == 3
        if place is link:
            write(rows, place)
            assert sort(place) == list(EXPECTED)
            shutil.rmtree(OUT)


def test_a_photo_is_not_taken_for_the_link_to_it(rows: list[Row]) -> None:
    write(rows, link)
    sort(link)
    write(rows)
    assert sort() == ["out/owl/1 (3).jpg", "out/owl/1 (4).jpg", "out/owl/2 (2).jpg"]


def test_a_link_is_moved_as_a_link_to_the_same_photo(rows: list[Row]) -> None:
    Path("links").mkdir()
    Path("links/1.jpg").symlink_to("../a/1.jpg")
    write([{**rows[0], "file": "links/1.jpg"}])
    sort()
    assert Path("out/owl/1.jpg").is_symlink()
    assert Path("out/owl/1.jpg").read_text() == "photo 0"
    assert not Path("links/1.jpg").is_symlink()
    assert Path("a/1.jpg").exists()
    write([{**rows[0], "file": "out/owl/1.jpg"}])  # it is where it belongs
    assert sort() == ["out/owl/1.jpg"]
    assert Path("out/owl/1.jpg").is_symlink()


def test_a_full_disk_is_told_by_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photo, target = tmp_path / "photo.png", tmp_path / "target.png"
    photo.touch()

    def full(source: Path, _: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(source))

    monkeypatch.setattr(shutil, "copy2", full)
    monkeypatch.setattr(os, "link", no_hard_links)
    with pytest.raises(OSError, match="No space left on device") as caught:
        move(photo, target)
    assert caught.value.filename == str(target)
    assert photo.exists()
    assert not target.exists()


def test_nothing_goes_through_a_link(rows: list[Row]) -> None:
    Path("elsewhere").mkdir()
    OUT.mkdir()
    Path("out/owl").symlink_to("../elsewhere")
    with pytest.raises(UserError, match="out/owl is a link"):
        class_folders(OUT, np.array(["owl"]))
    with pytest.raises(UserError, match="is a link"):
        write(rows)
    Path("elsewhere/plan").touch()
    PLAN.symlink_to("elsewhere/plan")
    with pytest.raises(UserError, match="is a link"):
        planned_by(PLAN)
