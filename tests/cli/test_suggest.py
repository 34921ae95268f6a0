"""`fewset suggest` as a user types it."""

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest

from fewset.classify import embedding
from fewset.encoders import register_encoder
from tests.helpers.command_line import fail, succeed
from tests.helpers.photos import PLUGIN, TinyEncoder, write_photos
from tests.helpers.processes import succeed as torchrun


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty directory with a classifier of a quick encoder, and unlabelled photos."""
    monkeypatch.chdir(tmp_path)
    register_encoder("tiny")(lambda device: TinyEncoder())  # noqa: ARG005
    succeed("fit", write_photos(Path("photos"), 3), "-o", "my.fewset", "--encoder", "tiny")
    write_photos(Path("inbox"), 5, first=20)
    yield
    embedding._loaded.cache_clear()


def files() -> set[str]:
    return {str(path) for path in Path().rglob("*") if path.is_file()}


def test_it_prints_photos_with_reasons_and_writes_nothing() -> None:
    before = files()
    lines = succeed("suggest", "my.fewset", "inbox", "--count", 4).splitlines()
    assert len(lines) == 4
    for line in lines:
        name, _, reason = line.partition(": ")
        assert Path(name).is_file()
        assert " % or " in reason or reason == "unlike all labelled photos: a new class?"
    assert files() == before


def test_page_list_and_links() -> None:
    printed = succeed(
        *("suggest", "my.fewset", "inbox", "--count", 4),
        *("--page", "next.html", "--csv", "next.csv", "--link-to", "next"),
    )
    names = [line.partition(": ")[0] for line in printed.splitlines()[:4]]
    page = Path("next.html").read_text()
    assert page.count('src="data:image/jpeg;base64,') == 4
    assert all(name in page for name in names)
    with Path("next.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [row["file"] for row in rows] == names
    for row in rows:
        assert row["reason"]
        assert Path(row["linked_to"]).resolve() == Path(row["file"]).resolve()
        assert Path(row["linked_to"]).parent == Path("next", row["class"])
    assert "links: next" in printed
    for corrected in ("next", "next.csv"):  # by moving links, or by editing the column "class"
        assert "photos added: 4" in succeed("add", "my.fewset", corrected, "-o", "more.fewset")


def test_labelled_photos_are_not_suggested_again() -> None:
    printed = succeed("suggest", "my.fewset", "photos")
    assert printed == "0 of the 20: the others are like labelled or suggested photos\n"


def test_unreadable_photos_are_counted() -> None:
    Path("inbox", "broken.jpg").write_bytes(b"nonsense")
    printed = succeed("suggest", "my.fewset", "inbox", "--count", 2)
    assert "photos that could not be read: 1\n  inbox/broken.jpg: " in printed


@pytest.mark.slow
def test_several_processes_share_the_work_and_one_writes() -> None:
    """150 photos are 3 chunks for 2 processes."""
    write_photos(Path("inbox"), 50, first=100)
    Path("tiny.py").write_text(PLUGIN)
    words = ["suggest", "my.fewset", "inbox", "--plugin", "tiny.py"]
    printed = torchrun(2, "-m", "fewset", *words, "--page", "b.html", "--csv", "b.csv", "--link-to", "b")
    assert printed.count("page: b.html") == 1
    assert len([path for path in Path("b").rglob("*") if path.is_symlink()]) == 20
    succeed(*words[:3], "--page", "a.html", "--csv", "a.csv")
    assert Path("b.html").read_text() == Path("a.html").read_text()
    with Path("a.csv").open(newline="") as one, Path("b.csv").open(newline="") as other:
        assert [row["file"] for row in csv.DictReader(one)] == [row["file"] for row in csv.DictReader(other)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--page", "inbox/new.jpg"], "has the name of a photo"),
        (["--page", "my.fewset"], "is read and cannot be written too"),
        (["--page", "a", "--csv", "a"], "--page and --csv are both a"),
        (["--page", "nowhere/a.html"], "there is no directory nowhere"),
        (["--link-to", "inbox/next"], "is in inbox, whose photos are to be sorted"),
        (["--count", "0"], "--count"),
    ],
)
def test_bad_input_is_one_line(words: list[str], message: str) -> None:
    assert message in fail("suggest", "my.fewset", "inbox", *words)
