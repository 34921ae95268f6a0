"""SIGKILL at random moments: the command given again makes the same files, and leaves nothing else behind.

Each job runs once undisturbed. Then it starts again elsewhere, is killed at a moment drawn from the seed,
sometimes again while it resumes, and at last runs to its end. Its files must be the same to the byte, but for
the times that they record.
"""

import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.forks import KilledError, load_everything, run
from tests.helpers.photos import PLUGIN, write_photos
from tests.helpers.tiny_recipes import PRETRAIN, TRAIN, recipe
from tests.helpers.trees import folder

_TIMES = {"seconds", "written"}
_TRIES = 20
Tree = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A command for a directory that `prepare` fills; given again, it resumes or starts again."""

    words: tuple[str, ...]
    makes: str
    """The file or directory, under the place where it runs, that is compared."""


_TINY = "--encoder", "tiny", "--plugin", "tiny_encoder.py"
JOBS = {
    "import": Job(("data", "import", "folder", "pets", "--name", "pets", "--size", "64"), "home/sets/pets"),
    "pretrain": Job(("pretrain", "pre.toml", "--out", "runs/again", "--resume"), "runs/again"),
    "train": Job(("train", "feat.toml", "--out", "runs/feat", "--resume"), "runs/feat"),
    "eval": Job(("eval", "runs/pre", "--tasks", "20000", "--seed", "3"), "runs/pre"),
    "fit": Job(("fit", "photos", "-o", "made/my.fewset", *_TINY), "made"),
    "report": Job(("report", "runs/pre", "runs/other", "--out", "made/report"), "made/report"),
}


def prepare(place: Path) -> None:
    """Fill a directory with the files that the jobs read."""
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
    for name, data in folder(classes=7, each=40).items():
        (place / "pets" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "pets" / name).write_bytes(data)


def kill_and_compare(name: str, place: Path, folder: Path, kills: int, rng: Random) -> Iterator[list[float]]:
    """Run a job with this many kills in all, at most three a run; yields the moments of each run's kills."""
    job, at_work = JOBS[name], folder / "at work"  # always the same: paths are recorded
    shutil.copytree(place, at_work)
    seconds = run(job.words, at_work)
    expected = tree_of(at_work / job.makes)
    shutil.rmtree(at_work)
    while kills > 0:
        shutil.copytree(place, at_work)
        moments: list[float] = []
        for _ in range(_TRIES):
            moment = rng.uniform(0, seconds)
            try:
                run(job.words, at_work, moment)
            except KilledError:
                moments.append(round(moment, 3))
                if len(moments) == min(3, kills) or rng.random() < 0.5:
                    break
            else:  # it ended before
                shutil.rmtree(at_work)
                shutil.copytree(place, at_work)
                moments = []
        run(job.words, at_work)
        check_same(expected, tree_of(at_work / job.makes), left_over(at_work))
        shutil.rmtree(at_work)
        if not moments:
            raise AssertionError(f"{name} could not be killed: it takes {seconds:.3f} s")
        kills -= len(moments)
        yield moments


def left_over(place: Path) -> list[str]:
    """Temporary files of a killed process."""
    names = re.compile(r"\.(partial|old|tmp|journal)$")
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if names.search(path.name))


def check_same(expected: Tree, found: Tree, left: list[str]) -> None:
    assert set(found) == set(expected), f"other files: {sorted(set(found) ^ set(expected))}"
    for name in expected:
        assert found[name] == expected[name], f"{name} differs"
    assert not left, f"left over: {left}"


def tree_of(path: Path) -> Tree:
    """The content of files, without the times that they record."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    kept = [file for file in files if file.name != "log.txt" and not file.name.endswith(".pt.sha256")]
    return {str(file.relative_to(path)): _content(file) for file in kept}


def _content(file: Path) -> Any:
    if file.suffix == ".json":
        return _plain(json.loads(file.read_text()))
    if file.suffix == ".jsonl":
        return [_plain(json.loads(line)) for line in file.read_text().splitlines()]
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


def kill_jobs(place: Path, folder: Path, kills: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Kills spread evenly over all jobs: how many there were of each, and the defects."""
    load_everything()
    done: Counter[str] = Counter()
    wrong: list[str] = []
    for number, name in enumerate(JOBS):
        share = kills // len(JOBS) + (number < kills % len(JOBS))
        if not share:
            continue
        try:
            for moments in kill_and_compare(name, place, folder, share, Random(f"{seed} {name}")):
                done[name] += len(moments)
                print(f"{name}: killed after {', '.join(f'{moment:.2f} s' for moment in moments)}: as before")
        except AssertionError as error:
            shutil.rmtree(folder / "at work", ignore_errors=True)
            wrong.append(f"{name}: {error}")
            print(wrong[-1])
    return done, wrong
