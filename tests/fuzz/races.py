"""Two processes at once in one place: each command ends right, or with one line."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from tests.fuzz.forks import exit_code, load_everything, run, start
from tests.fuzz.kills import JOBS, Tree, check_same, left_over, tree_of

_PATIENCE = 60.0
_FEW = 2  # items of each character of `strokes`, instead of 40

Race = Callable[[Path, dict[str, Tree]], None]
RACES: dict[str, Race] = {}


def race(function: Race) -> Race:
    """Decorator: a function of a directory that `kills.prepare` has filled, and of the jobs' files."""
    RACES[function.__name__] = function
    return function


def run_races(place: Path, folder: Path) -> list[str]:
    """Run all races, each in a copy of a prepared directory. Returns the defects."""
    load_everything()
    from fewset.data.images import strokes

    strokes.ITEMS = _FEW
    wrong, at_work = [], folder / "at work"  # always the same: paths are recorded
    undisturbed: dict[str, Tree] = {}
    for job in ("train", "eval"):
        shutil.copytree(place, at_work)
        run(JOBS[job].words, at_work)
        undisturbed[job] = tree_of(at_work / JOBS[job].makes)
        shutil.rmtree(at_work)
    for name, function in RACES.items():
        shutil.copytree(place, at_work)
        try:
            function(at_work, undisturbed)
            print(f"{name}: as it should be")
        except AssertionError as error:
            wrong.append(f"{name}: {error}")
            print(wrong[-1])
        shutil.rmtree(at_work)
    return wrong


@race
def two_resume_one_run(place: Path, undisturbed: dict[str, Tree]) -> None:
    job = JOBS["train"]
    first = start(job.words, place, "first")
    _wait_for(place / job.makes / ".lock")
    second = start(job.words, place, "second")
    assert (exit_code(first), exit_code(second)) == (0, 2), _said(place)
    _check_one_line(place / "second", "another process is writing the run")
    check_same(undisturbed["train"], tree_of(place / job.makes), left_over(place))


@race
def two_evaluations_make_one_result(place: Path, undisturbed: dict[str, Tree]) -> None:
    job = JOBS["eval"]
    processes = [start(job.words, place, name) for name in ("first", "second")]
    for process, name in zip(processes, ("first", "second"), strict=True):
        if exit_code(process) != 0:
            _check_one_line(place / name, "another process")
    check_same(undisturbed["eval"], tree_of(place / job.makes), left_over(place))


@race
def two_first_uses_of_strokes(place: Path, undisturbed: dict[str, Tree]) -> None:  # noqa: ARG001
    processes = [start(("data", "info", "strokes"), place, name) for name in ("first", "second")]
    assert [exit_code(process) for process in processes] == [0, 0], _said(place)
    run(("data", "verify", "strokes"), place)
    assert not left_over(place), left_over(place)


@race
def a_set_is_deleted_while_a_training_reads_it(place: Path, undisturbed: dict[str, Tree]) -> None:
    _spoil_while_training(
        place, undisturbed["train"], lambda: shutil.rmtree(place / "home" / "sets" / "tiny")
    )


@race
def a_set_is_replaced_while_a_training_reads_it(place: Path, undisturbed: dict[str, Tree]) -> None:
    words = ("data", "import", "folder", "pets", "--name", "tiny", "--size", "20", "--force")
    _spoil_while_training(place, undisturbed["train"], lambda: run(words, place))


def _spoil_while_training(place: Path, expected: Tree, spoil: Callable[[], object]) -> None:
    job = JOBS["train"]
    process = start(job.words, place, "first")
    _wait_for(place / job.makes / "checkpoint" / "last.pt")
    spoil()
    if exit_code(process) == 0:
        check_same(expected, tree_of(place / job.makes), left_over(place))
    else:
        _check_one_line(place / "first", "tiny")


def _wait_for(path: Path) -> None:
    end = time.monotonic() + _PATIENCE
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.002)


def _said(place: Path) -> str:
    return " / ".join((place / name).read_text() for name in ("first", "second"))


def _check_one_line(log: Path, words: str) -> None:
    errors = [line for line in log.read_text().splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, log.read_text()
    assert words in errors[0], errors[0]
    assert "Traceback" not in log.read_text(), log.read_text()
