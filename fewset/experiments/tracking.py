"""One callback for all experiment trackers of a run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any

from fewset.core.errors import UserError
from fewset.core.parsing import flattened, plain
from fewset.experiments.config import Recipe
from fewset.experiments.result import Result
from fewset.experiments.trackers import TRACKERS, TrackedRun, Tracker


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
