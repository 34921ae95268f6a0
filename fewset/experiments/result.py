"""The result of a run on tasks, and its file."""

import shlex
import sys
from dataclasses import asdict, dataclass, field
from functools import partial
from math import isnan, nan
from pathlib import Path
from typing import Any

from fewset.core.errors import UserError
from fewset.core.names import one_line
from fewset.io.files import write_json
from fewset.io.paths import without_machine
from fewset.io.reading import read_record
from fewset.tasks.scores import SET_ADDS, SET_ADDS_TO, Difference

_FORMAT = 2

TASK_FIELDS = (
    "data_digest", "split", "domain", "setting", "task_key", "left_out", "way", "shot", "query", "seed",
    "related",
)  # fmt: skip
"""Two results are paired only if they agree in all of these. Their number of tasks may differ: task i is the
same task in both, so they are paired on the tasks of both."""


@dataclass(frozen=True)
class StoredScore:
    """A mean over tasks, half its 95 % interval (None where there is none), and the file of the values."""

    mean: float
    ci95: float | None
    per_task: str


@dataclass(frozen=True)
class Result:
    """A score, its tasks, and the digests of weights, recipe and data that made it."""

    run: str
    method: str
    setting: str
    options: dict[str, Any]  # of the setting
    variant: str  # what tells it from other results of the setting
    data: str
    data_digest: str
    weights_digest: str | None  # sha256 of the weights file; None in results from before it was recorded
    recipe_digest: str | None
    split: str
    domain: str | None
    way: int
    shot: int
    query: int
    tasks: int
    seed: int
    mean: float
    ci95: float | None
    per_task: str
    command: str
    commit: str
    versions: dict[str, Any]
    seconds: float
    before: StoredScore | None = None  # of the same tasks, without the adaptation
    examples: str | None = None  # the file of a few tasks to look at
    scores: dict[str, StoredScore] = field(default_factory=dict)  # others on the same tasks, by name
    fields: dict[str, Any] = field(default_factory=dict)  # what the setting has to say to programs
    notes: dict[str, str] = field(default_factory=dict)  # and to people
    task_key: str = ""  # what else tells these tasks from others
    left_out: tuple[str, ...] = ()  # classes with too few items
    related: int = 0  # a task has a class and others of its N nearest; 0: drawn independently
    format: int = _FORMAT

    def score_of(self, name: str) -> StoredScore:
        """The headline for "", the score before adaptation for "before", or another by its name.

        What the set adds is a difference of two scores, without values of single tasks; it is 0 for a model
        without an adapter.
        """
        if name == "":
            return StoredScore(self.mean, self.ci95, self.per_task)
        if name == "before" and self.before is not None:
            return self.before
        if name == SET_ADDS:
            return StoredScore(**self.fields.get(name, {"mean": 0.0, "ci95": 0.0}), per_task="")
        if name not in self.scores:
            raise UserError(f"the result of {self.run} has no score {name!r}, only {', '.join(self.scores)}")
        return self.scores[name]


def set_adds_to(result: Result, name: str) -> Difference | None:
    """What the set adds to a score of a result, by the score's name; None where it was not measured."""
    adds = result.fields.get(SET_ADDS) if name == "" else result.fields.get(SET_ADDS_TO, {}).get(name)
    return adds and Difference(adds["mean"], half_width(adds["ci95"]))


def half_width(ci95: float | None) -> float:
    """Half an interval; NaN if there is none."""
    return nan if ci95 is None else ci95


def stored_width(ci95: float) -> float | None:
    """Half an interval for a file, which has null for NaN."""
    return None if isnan(ci95) else ci95


def write_result(result: Result, file: Path) -> None:
    """Write a result to its file."""
    write_json(file, asdict(result))


def read_result(file: Path) -> Result:
    """The result in a file, every field checked; an error says how to make it again."""
    directory = file.parent
    if not file.exists():
        raise UserError(
            f"{file} is missing: finish the run with `fewset train RECIPE --resume`, or score it with "
            f"`fewset eval {directory}`"
        )
    broken = partial(broken_file, file, directory)
    result = read_record(Result, file, "result", _FORMAT, broken)
    if result.examples is not None and result.before is None:
        raise broken("has examples of an adaptation, but no score before it")
    # Names end up in terminals, tables and pages: one line of visible characters each.
    names = ("run", "method", "setting", "variant", "data", "split", "domain", "task_key")
    texts = {name: getattr(result, name) or "" for name in names}
    texts |= {"scores": "".join(result.scores), "left_out": "".join(result.left_out)}
    texts |= {"notes": "".join(f"{name}{text}" for name, text in result.notes.items())}
    for name, text in texts.items():
        if not text.isprintable():
            raise broken(f"has control characters in {name}: {text!r}")
    return result


def broken_file(file: Path, directory: Path, what: str) -> UserError:
    """An error about a file of a result, with the remedy."""
    return UserError(f"{file} {what}; `fewset eval {directory}` writes it again")


def command_line() -> str:
    """The command of this process, for files that record how they were made.

    Under `python -m`, and so under torchrun, the program's name is that of a file in a package. Paths are
    made relative to the working directory, so that shared files have no names of users or machines.
    """
    program = Path(sys.argv[0])
    words = [one_line(_recorded_word(word)) for word in sys.argv[1:]]
    if program.name != "__main__.py":
        return shlex.join([program.name, *words])
    package = program.parent.name
    return shlex.join([*(["fewset"] if package == "fewset" else ["python", "-m", package]), *words])


def _recorded_word(word: str) -> str:
    """A word of a command; an absolute path in it, alone or as in --out=PATH, is made relative."""
    key, equals, value = word.partition("=")
    return f"{key}={without_machine(value)}" if equals else without_machine(word)
