"""Photos into folders: what a stop may leave behind, at any moment."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewset.classify.photos.sources import State, file_state
from fewset.classify.predict.answers import Row
from fewset.classify.predict.sort import Place, check_folders, link, move, sort_photos
from fewset.core.errors import UserError

OUT = Path("out")
Answers = list[tuple[State, Row]]


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


def answered(rows: list[Row]) -> Answers:
    """The answers, with the photos as they are now."""
    return [(file_state(row["file"]), row) for row in rows]


def sort(answers: Answers, place: Place = move) -> list[str | None]:
    return list(sort_photos(answers, OUT, place))


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
@pytest.mark.parametrize("second", [1, 3])
def test_killed_twice_anywhere_nothing_is_lost_or_empty(
    other_disk: bool, second: int, rows: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    if other_disk:
        monkeypatch.setattr(os, "link", no_hard_links)
    first, stopped = 1, True
    while stopped:
        answers = answered(rows)
        stopped = stopped_at(first, monkeypatch, lambda: sort(answers))  # noqa: B023
        whole = {"photo 0", "photo 1", "photo 2"}
        for _ in range(2):
            visible = {name: text for name, text in contents().items() if "/." not in name}
            assert set(visible.values()) <= whole
            kept = {Path(str(row["file"])).read_text() for row in rows if Path(str(row["file"])).exists()}
            assert kept | set(visible.values()) == whole
            stopped_at(second, monkeypatch, lambda: sort(answers))  # noqa: B023
        assert sort(answers) == list(EXPECTED)
        assert contents() == EXPECTED
        assert not any(Path(str(row["file"])).exists() for row in rows)
        shutil.rmtree(OUT)
        write_photos_again()
        first += 1
    assert first > 6


def test_files_of_others_stay(rows: list[Row]) -> None:
    """One of them is even of the size and the time of a photo."""
    Path("out/owl").mkdir(parents=True)
    Path("out/owl/1.jpg").write_text("photo X")
    Path("out/owl/2.jpg").write_text("photo Y")
    times = Path("b/2.jpg").stat()
    os.utime("out/owl/2.jpg", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert sort(answered(rows)) == ["out/owl/1 (2).jpg", "out/owl/1 (3).jpg", "out/owl/2 (2).jpg"]
    assert sorted(contents().values()) == ["photo 0", "photo 1", "photo 2", "photo X", "photo Y"]


def test_a_photo_that_is_gone_or_replaced_is_left_out(rows: list[Row]) -> None:
    answers = answered(rows)
    Path("b/1.jpg").unlink()
    Path("b/2.jpg").write_text("another photo")
    assert sort(answers) == ["out/owl/1.jpg", None, None]
    assert Path("b/2.jpg").read_text() == "another photo"


def test_a_photo_that_takes_the_place_of_a_moved_one_stays(rows: list[Row]) -> None:
    answers = answered(rows)
    sort(answers[:1])
    Path("a/1.jpg").write_text("a new photo")
    assert sort(answers) == list(EXPECTED)
    assert Path("a/1.jpg").read_text() == "a new photo"


@pytest.mark.parametrize("place", [link, move])
def test_sorting_twice_is_sorting_once(rows: list[Row], place: Place) -> None:
    answers = answered(rows)
    assert sort(answers, place) == sort(answers, place) == list(EXPECTED)
    assert len(list(Path("out/owl").iterdir())) == 3


def test_a_photo_is_not_taken_for_the_link_to_it(rows: list[Row]) -> None:
    sort(answered(rows), link)
    assert sort(answered(rows)) == ["out/owl/1 (3).jpg", "out/owl/1 (4).jpg", "out/owl/2 (2).jpg"]


def test_a_photo_that_is_in_its_folder_stays_whatever_its_path(rows: list[Row]) -> None:
    sort(answered(rows))
    Path("way").symlink_to("out/owl")
    for folder in ("out/owl", "way", "a/../out/owl"):
        (now,) = sort(answered([answer(f"{folder}/2.jpg")]))
        assert (now, Path("out/owl/2.jpg").read_text()) == ("out/owl/2.jpg", "photo 2")


def test_a_link_is_moved_as_a_link_to_the_same_photo(rows: list[Row]) -> None:
    Path("links").mkdir()
    Path("links/1.jpg").symlink_to("../a/1.jpg")
    sort(answered([{**rows[0], "file": "links/1.jpg"}]))
    assert Path("out/owl/1.jpg").is_symlink()
    assert Path("out/owl/1.jpg").read_text() == "photo 0"
    assert not Path("links/1.jpg").is_symlink()
    assert Path("a/1.jpg").exists()


def test_nothing_goes_through_a_link(rows: list[Row]) -> None:
    Path("elsewhere").mkdir()
    OUT.mkdir()
    Path("out/owl").symlink_to("../elsewhere")
    with pytest.raises(UserError, match="out/owl is a link"):
        check_folders(OUT, np.array(["owl"]))
    with pytest.raises(UserError, match="is a link"):
        sort(answered(rows))
