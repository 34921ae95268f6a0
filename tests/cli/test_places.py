"""Where nothing can be written, every command says so on one line, with the path and the remedy."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fewset.experiments.recipes import recipe_text
from tests.helpers.command_line import fail
from tests.helpers.disks import fill, make_read_only
from tests.helpers.results import write_run
from tests.helpers.tiny_recipes import FEATURES, recipe

RESULTS = Path(__file__).parents[2] / "results"

Prepare = Callable[[Path, Path], list[Any]]
"""From a directory of its own and the place to write to: the words of a command, once its input is there."""


def _report(own: Path, place: Path) -> list[Any]:
    return ["report", write_run(own), "--out", place / "report"]


def _results(own: Path, place: Path) -> list[Any]:
    return ["results", place / "kept", "--add", write_run(own)]


def _train(own: Path, place: Path) -> list[Any]:
    (own / "features.toml").write_text(recipe_text(recipe(FEATURES, epochs=0)))
    return ["train", own / "features.toml", "--out", place / "run"]


def _paper(own: Path, place: Path) -> list[Any]:  # noqa: ARG001
    (place / "paper" / "heads").mkdir(parents=True)
    shutil.copyfile(RESULTS / "paper" / "heads" / "heads.json", place / "paper" / "heads" / "heads.json")
    return ["paper", "heads", "--draw", "--out", place / "paper"]


IN_PLACE: list[Prepare] = [_paper]  # what they write lies beside what they read
ELSEWHERE: list[Prepare] = [_report, _results, _train]


def name_of(value: Any) -> str:
    return value.__name__.lstrip("_").replace("_", " ")


pytestmark = pytest.mark.usefixtures("tiny_set", "tiny_table")


@pytest.mark.parametrize(
    ("spoil", "remedy"),
    [
        (fill, "No space left on device; make room, or choose a place on another disk"),
        (make_read_only, "Read-only file system; choose another place"),
    ],
    ids=["full", "read-only"],
)
@pytest.mark.parametrize("prepare", [*ELSEWHERE, *IN_PLACE], ids=name_of)
def test_a_full_or_read_only_disk(
    prepare: Prepare, spoil: Callable[[Path], None], remedy: str, small_disk: Path, tmp_path: Path
) -> None:
    words = prepare(tmp_path, small_disk)
    spoil(small_disk)
    before = {path for path in small_disk.rglob("*") if path.is_file()}
    told = fail(*words)
    assert told.startswith(f"{small_disk}/")
    assert told.endswith(f": {remedy}")
    assert ".partial" not in told
    assert {path for path in small_disk.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("prepare", ELSEWHERE, ids=name_of)
def test_a_directory_that_is_gone(prepare: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    words = prepare(tmp_path, Path("out"))
    monkeypatch.chdir(gone)
    gone.rmdir()
    told = fail(*words)
    assert "\n" not in told
    assert "No such file or directory" in told
