"""Experiment trackers, which `--log-to` names. One file each; a plugin can bring another.

A tracker is a class without arguments that is registered by name (`@register_tracker("name")`) and has the
three methods of `Tracker`. It imports its library in `__init__`, so that a missing one is reported before the
training. Nothing is sent anywhere unless the user's own settings of the tracker say so.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

from fewset.core.errors import UserError
from fewset.core.parsing import flattened, plain
from fewset.core.registry import Registry
from fewset.experiments.config import Recipe
from fewset.experiments.result import Result


@dataclass(frozen=True)
class TrackedRun:
    """A run, as a tracker gets it at the start."""

    name: str
    recipe: Mapping[str, bool | int | float | str]
    """By the keys of `--set`: `train.epochs`, ..."""
    folder: Path
    """In the run directory, for the tracker's own files."""


class Tracker(Protocol):
    """Follows one run. Only the main process has one."""

    def start(self, run: TrackedRun) -> None:
        """Begin a run. One that is resumed begins again, and its earlier rows follow."""

    def row(self, step: int, values: Mapping[str, float]) -> None:
        """A row of `metrics.jsonl`, once an epoch."""

    def finish(self, result: Mapping[str, float] | None) -> None:
        """The end, with the score of the run; None if it was stopped."""


TRACKERS: Registry[type[Tracker]] = Registry("tracker", __name__)
register_tracker = TRACKERS.register


class Tracking:
    """Passes the rows and the score of a run to trackers; as a context manager it ends them.

    A tracker that fails during the training is dropped, and `warn` gets a message.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self.warn = warn
        self._trackers: dict[str, Tracker] = {}
        self._rows = 0  # how many rows the trackers have

    def choose(self, names: Iterable[str]) -> None:
        """Make the trackers of these names; an unknown one, or one that is not installed, is an error."""
        self._trackers = {name: TRACKERS[name]() for name in dict.fromkeys(names)}

    def start(self, recipe: Recipe, folder: Path) -> None:
        """Begin a run; each tracker gets a folder in `folder`. A tracker that cannot begin is an error."""
        keys = flattened(plain(replace(recipe, card=None)))
        flat = {key: str(value) if isinstance(value, list) else value for key, value in keys.items()}
        for name, tracker in self._trackers.items():
            try:
                tracker.start(TrackedRun(recipe.name, flat, folder / name))
            except Exception as error:  # a tracker's library may raise anything
                raise UserError(f"{_failure(name, error)}; fix that, or leave out --log-to {name}") from error

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Pass on the new rows; `rows` are all rows of the run until now."""
        for row in rows[self._rows :]:
            values = _numbers({key: value for key, value in row.items() if key != "step"})
            self._each(lambda tracker, row=row, values=values: tracker.row(row["step"], values))  # type: ignore[misc]
        self._rows = len(rows)

    def finish(self, result: Result | None) -> None:
        """End the run, with its result if it came to its end."""
        score = None
        if result is not None:
            score = _numbers({f"{result.split}_accuracy": result.mean, f"{result.split}_ci95": result.ci95})
        self._each(lambda tracker: tracker.finish(score))
        self._trackers.clear()

    def __enter__(self) -> "Tracking":
        return self

    def __exit__(self, *_: object) -> None:
        self.finish(None)  # of a run that was stopped; else all are finished already

    def _each(self, call: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self._trackers.items()):
            try:
                call(tracker)
            except Exception as error:  # a training of days does not end for this
                del self._trackers[name]
                self.warn(f"{_failure(name, error)}; the run goes on without it")


def _failure(name: str, error: Exception) -> str:
    return f"{name} failed ({type(error).__name__}: {' '.join(str(error).split())})"


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """The finite values: one task has no interval."""
    return {
        key: float(value)
        for key, value in values.items()
        if isinstance(value, int | float) and isfinite(value)
    }
