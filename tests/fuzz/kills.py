"""SIGKILL at random moments, and two processes at once in one place.

Each job runs once undisturbed. Then it starts again elsewhere, is killed at a moment drawn from the seed,
sometimes again while it resumes, and at last runs to its end. Its files must be the same to the byte, but for
the times that they record. Of two processes each ends right, or with one line.

Commands run in processes that are forked from one which has loaded everything and computed nothing.
"""

import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.helpers.photos import PLUGIN, write_photos
from tests.helpers.tiny_recipes import PRETRAIN, TRAIN, recipe
from tests.helpers.trees import folder, write_tree

CHECKPOINT_SECONDS = 0.02
_TIMES = {"seconds", "written"}
_TRIES = 20
_PATIENCE = 60.0
Tree = dict[str, Any]


class Job(NamedTuple):
    """A command for a directory that `prepared` fills; given again, it resumes or starts again."""

    words: str
    makes: str
    """The directory, under the place where it runs, that is compared."""


JOBS = {
    "import": Job("data import folder pets --name pets --size 64", "home/sets/pets"),
    "pretrain": Job("pretrain pre.toml --out runs/again --resume", "runs/again"),
    "train": Job("train feat.toml --out runs/feat --resume", "runs/feat"),
    "eval": Job("eval runs/pre --tasks 20000 --seed 3", "runs/pre"),
    "fit": Job("fit photos -o made/my.fewset --encoder tiny --plugin tiny_encoder.py", "made"),
    "report": Job("report runs/pre runs/other --out made/report", "made/report"),
}


@contextmanager
def prepared() -> Iterator[Path]:
    """A directory with the files that the jobs read; its parent is there to work in."""
    with tempfile.TemporaryDirectory(prefix="fewset-kills-") as folder:
        place = Path(folder) / "place"
        child = os.fork()  # a process that has computed cannot be forked again
        if child == 0:
            try:
                _prepare(place)
            finally:
                os._exit(not (place / "pets").exists())  # made last
        assert exit_code(child) == 0, "the jobs could not be prepared"
        yield place


def _prepare(place: Path) -> None:
    from fewset.experiments.recipes import recipe_text
    from fewset.experiments.train_run import execute
    from tests.helpers.tiny_set import make_tiny_set

    (place / "runs").mkdir(parents=True)
    (place / "made").mkdir()
    os.environ["FEWSET_HOME"] = str(place / "home")
    make_tiny_set()
    pretrain, train = recipe(PRETRAIN), recipe(TRAIN, tasks_per_epoch=20)
    (place / "pre.toml").write_text(recipe_text(pretrain))
    (place / "feat.toml").write_text(recipe_text(train))
    execute(pretrain, "pretrain", place / "runs" / "pre", echo=str)
    shutil.copytree(place / "runs" / "pre", place / "runs" / "other")
    result = place / "runs" / "other" / "result.json"
    result.write_text(result.read_text().replace('"run": "pre"', '"run": "other"'))
    write_photos(place / "photos", shots=20)
    (place / "tiny_encoder.py").write_text(PLUGIN)
    write_tree(folder(classes=7, each=40), place / "pets")


# Processes


class KilledError(Exception):
    """A command was killed."""


def load_everything() -> None:
    """Import the modules of the commands, but compute nothing: a process that has computed cannot fork."""
    from fewset.training import loop

    loop.CHECKPOINT_SECONDS = CHECKPOINT_SECONDS
    for room in ("classify.card", "classify.classifier", "cli.app", "data.images.importing",
                 "experiments.train_run", "report.page"):  # fmt: skip
        import_module(f"fewset.{room}")
    import_module("matplotlib.pyplot")


def start(words: str, place: Path, log: str = "log") -> int:
    """Begin a command in a directory; its output goes to the file `log` there. Returns the process."""
    process = os.fork()
    if process == 0:
        os._exit(_child(words, place, log))
    return process


def _child(words: str, place: Path, log: str) -> int:
    from fewset.cli.app import main

    os.environ["FEWSET_HOME"] = str(place / "home")
    os.chdir(place)
    file = os.open(place / log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.argv = ["fewset", *words.split()]
    try:
        main()
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 1
    return 0


def exit_code(process: int) -> int:
    """Wait until a command ends."""
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        raise KilledError
    return os.WEXITSTATUS(status)


def run(words: str, place: Path, seconds: float | None = None) -> float:
    """Run a command in its own process; kill it after some seconds, if given. Returns how long it took."""
    begin = time.monotonic()
    process = start(words, place)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)
    code = exit_code(process)
    if code != 0:
        raise AssertionError(f"fewset {words} ended with {code}: {(place / 'log').read_text()}")
    return time.monotonic() - begin


# Kills


@contextmanager
def copied(place: Path) -> Iterator[Path]:
    """A copy of the prepared directory, always under the same name: paths are recorded."""
    at_work = place.with_name("at work")
    shutil.copytree(place, at_work)
    try:
        yield at_work
    finally:
        shutil.rmtree(at_work)


def undisturbed(job: Job, place: Path) -> tuple[Tree, float]:
    """The files that a job makes, and how long it takes."""
    with copied(place) as at_work:
        seconds = run(job.words, at_work)
        return tree_of(at_work / job.makes), seconds


def kill_and_compare(name: str, place: Path, kills: int, rng: Random) -> Iterator[list[float]]:
    """Run a job with this many kills in all, at most three a run; yields the moments of each run's kills."""
    job = JOBS[name]
    expected, seconds = undisturbed(job, place)
    missed = 0
    while kills > 0:
        with copied(place) as at_work:
            moments: list[float] = []
            ended = False
            while not ended and len(moments) < min(3, kills) and (not moments or rng.random() < 0.5):
                moment = rng.uniform(0, seconds)
                try:
                    run(job.words, at_work, moment)
                    ended = True
                except KilledError:
                    moments.append(round(moment, 3))
            if not ended:
                run(job.words, at_work)
            check_same(expected, tree_of(at_work / job.makes), at_work)
        missed = 0 if moments else missed + 1
        if missed == _TRIES:
            raise AssertionError(f"{name} could not be killed: it takes {seconds:.3f} s")
        if moments:
            kills -= len(moments)
            yield moments


def check_same(expected: Tree, found: Tree, place: Path) -> None:
    """Raise an error for other files, and for temporary files that a killed process has left in a place."""
    assert set(found) == set(expected), f"other files: {sorted(set(found) ^ set(expected))}"
    for name in expected:
        assert found[name] == expected[name], f"{name} differs"
    left = [str(path) for path in place.rglob("*") if re.search(r"\.(partial|old|tmp|journal)$", path.name)]
    assert not left, f"left over: {left}"


def tree_of(path: Path) -> Tree:
    """The content of files, without the times that they record."""
    kept = [file for file in path.rglob("*") if file.is_file() and not file.name.endswith(".pt.sha256")]
    return {str(file.relative_to(path)): _content(file) for file in kept if file.name != "log.txt"}


def _content(file: Path) -> Any:
    if file.suffix in (".json", ".jsonl"):
        lines = file.read_text().splitlines() if file.suffix == ".jsonl" else [file.read_text()]
        return [_plain(json.loads(line)) for line in lines]
    if file.suffix == ".pt":
        import torch

        return _plain(torch.load(file, weights_only=True))
    return file.read_bytes()


def _plain(value: Any) -> Any:
    """The value without times, and with tensors as bytes, so that equal values compare as equal."""
    if hasattr(value, "numpy"):
        return value.dtype, value.shape, value.numpy().tobytes()
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if key not in _TIMES}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def kill_jobs(place: Path, kills: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Kills spread evenly over all jobs: how many there were of each, and the defects."""
    load_everything()
    done: Counter[str] = Counter()
    wrong: list[str] = []
    for number, name in enumerate(JOBS):
        share = kills // len(JOBS) + (number < kills % len(JOBS))
        try:
            for moments in kill_and_compare(name, place, share, Random(f"{seed} {name}")) if share else ():
                done[name] += len(moments)
                print(f"{name}: killed after {', '.join(f'{moment:.2f} s' for moment in moments)}: as before")
        except AssertionError as error:
            wrong.append(f"{name}: {error}")
            print(wrong[-1])
    return done, wrong


# Races


def race(place: Path) -> None:
    """Two processes resume one run, and two use a generated set for the first time."""
    load_everything()
    from fewset.data.images import strokes

    strokes.ITEMS = 2  # of each character, instead of 40
    job = JOBS["train"]
    expected, _ = undisturbed(job, place)
    with copied(place) as at_work:
        first = start(job.words, at_work, "first")
        end = time.monotonic() + _PATIENCE
        while not (at_work / job.makes / ".lock").exists():
            assert time.monotonic() < end, "the run is not locked"
            time.sleep(0.002)
        second = start(job.words, at_work, "second")
        assert (exit_code(first), exit_code(second)) == (0, 2)
        said = (at_work / "second").read_text()
        (error,) = (line for line in said.splitlines() if line.startswith("error: "))
        assert "another process is writing the run" in error
        assert "Traceback" not in said
        check_same(expected, tree_of(at_work / job.makes), at_work)
    with copied(place) as at_work:
        processes = [start("data info strokes", at_work, name) for name in ("first", "second")]
        assert [exit_code(process) for process in processes] == [0, 0]
        run("data verify strokes", at_work)
        check_same({}, {}, at_work)
