"""What a run tells experiment trackers: each row of `metrics.jsonl` once, whatever stopped it in between."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import Any

from fewset.core.errors import UserError
from fewset.core.parsing import flattened, parse, plain
from fewset.experiments.config import Recipe
from fewset.experiments.result import Result
from fewset.experiments.run_directory import TRACKING
from fewset.experiments.trackers import TRACKERS, TrackedRun, Tracker
from fewset.io.files import write_json
from fewset.io.inside import inside
from fewset.io.reading import parse_json, read_json, read_text
from fewset.training.checkpoint import METRICS


@dataclass(frozen=True)
class _Kept:
    """How far a tracker is with a run."""

    id: str
    step: int = 0
    finished: bool = False


class Tracking:
    """The trackers of the run in the directory `path`; as a context, its end is theirs.

    Each has a folder in it, and a file beside that says how far the tracker is.

    A tracker that fails while the run goes on is left out with a warning, for which there is `warn`. What it
    has missed it is told when the run is resumed.
    """

    def __init__(self, path: Path, warn: Callable[[str], None]) -> None:
        self.path, self.warn = path, warn
        self._chosen: dict[str, Tracker] = {}
        self._following: dict[str, Tracker] = {}
        self._kept: dict[str, _Kept] = {}

    def choose(self, names: Iterable[str]) -> None:
        """The trackers by name. One that is unknown or not installed is refused, before anything is done."""
        self._chosen = {name: TRACKERS[name]() for name in dict.fromkeys(names)}

    def start(self, recipe: Recipe) -> None:
        """Begin, or go on with a run; a tracker that cannot is an error."""
        keys = flattened(plain(replace(recipe, card=None)))
        flat = {key: str(value) if isinstance(value, list) else value for key, value in keys.items()}
        for name, tracker in self._chosen.items():
            kept = _read_kept(self._file(name))
            if kept and kept.finished:
                continue
            run = TrackedRun(recipe.name, flat, inside(self.path, Path(TRACKING) / name))
            if kept:
                run = replace(run, id=kept.id, step=kept.step)
            try:
                started = tracker.start(run)
            except Exception as error:  # somebody else's library may raise anything
                raise UserError(f"{_failed(name, error)}; mend that, or leave out --log-to {name}") from error
            self._following[name] = tracker
            self._keep(name, _Kept(started, run.step))

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """All rows of the run until now; each tracker is given those that are new to it."""
        for name in list(self._following):
            for row in rows:
                if name in self._following and row["step"] > self._kept[name].step:
                    self._give(name, row)

    def finish(self, result: Result) -> None:
        """The run has come to its end."""
        score = {f"{result.split}_accuracy": result.mean, f"{result.split}_ci95": result.ci95}
        self._finish(_numbers(score))

    def tell_finished(self, recipe: Recipe, result: Result) -> None:
        """Tell of a run that came to its end before what the trackers do not know of it yet."""
        with self:
            self.start(recipe)
            if self._following:
                lines = read_text(self.path / METRICS).splitlines()
                self.rows([parse_json(line) for line in lines])
                self.finish(result)

    def __enter__(self) -> "Tracking":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish(None)  # those that are still there

    def _give(self, name: str, row: Mapping[str, Any]) -> None:
        values = _numbers({key: value for key, value in row.items() if key != "step"})
        if self._tried(name, lambda: self._following[name].row(row["step"], values)):
            self._keep(name, replace(self._kept[name], step=row["step"]))

    def _finish(self, result: dict[str, float] | None) -> None:
        for name, tracker in list(self._following.items()):
            if self._tried(name, lambda tracker=tracker: tracker.finish(result)):  # type: ignore[misc]
                self._keep(name, replace(self._kept[name], finished=result is not None))
        self._following.clear()

    def _tried(self, name: str, step: Callable[[], None]) -> bool:
        try:
            step()
        except Exception as error:  # a training of days does not end for this
            self.warn(f"{_failed(name, error)}; the run goes on without it, and --resume tells it the rest")
            del self._following[name]
            return False
        return True

    def _keep(self, name: str, kept: _Kept) -> None:
        self._kept[name] = kept
        write_json(self._file(name), asdict(kept))

    def _file(self, name: str) -> Path:
        return self.path / TRACKING / f"{name}.json"


def _read_kept(file: Path) -> _Kept | None:
    if not file.exists():
        return None
    try:
        return parse(_Kept, read_json(file), what="tracked run")
    except (OSError, ValueError) as error:
        raise UserError(f"{file} is damaged ({error}); remove it, and the tracker begins anew") from None


def _failed(name: str, error: Exception) -> str:
    return f"{name} failed ({type(error).__name__}: {' '.join(str(error).split())})"


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Those that are numbers: there is no interval for one task, and no place for what is not finite."""
    return {
        key: float(value)
        for key, value in values.items()
        if isinstance(value, int | float) and isfinite(value)
    }
