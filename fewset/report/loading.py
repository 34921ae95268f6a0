"""Results with what lies beside their files: the value of each task, example tasks, training curves."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fewset.core.errors import UserError
from fewset.core.names import plain_name
from fewset.core.parsing import flattened
from fewset.experiments.result import Result, StoredScore, broken_file, half_width, read_result
from fewset.experiments.run_directory import RECIPE, RESULT, WEIGHTS
from fewset.io.arrays import array_in
from fewset.io.files import file_digest
from fewset.io.reading import parse_json, parse_toml, read_bytes, read_text, regular_file
from fewset.io.zips import open_zip
from fewset.tasks.scores import Score
from fewset.training.checkpoint import METRICS

_LARGEST_METRICS = 2**28
_NUMBER = (int, float, NoneType)
_EPOCH: dict[str, tuple[type, ...]] = {
    "epoch": (int,),
    "loss": _NUMBER,
    "accuracy": _NUMBER,
    "val_accuracy": _NUMBER,
    "val_ci95": _NUMBER,
    "seconds": _NUMBER,
    "best": (bool, NoneType),
}


@dataclass(frozen=True, eq=False)
class Curves:
    """One value an epoch; NaN where an epoch has none. `best` is the row of the weights that were kept."""

    epoch: Float[np.ndarray, " epochs"]
    loss: Float[np.ndarray, " epochs"]
    accuracy: Float[np.ndarray, " epochs"]
    val_accuracy: Float[np.ndarray, " epochs"]
    val_ci95: Float[np.ndarray, " epochs"]
    seconds: Float[np.ndarray, " epochs"]
    best: int | None


@dataclass(frozen=True, eq=False)
class Examples:
    """`E` example tasks: the embeddings of the queries, and the prototypes before and after adaptation."""

    task: Int[np.ndarray, " E"]
    query: Float[np.ndarray, "E M D"]
    query_labels: Int[np.ndarray, "E M"]
    before: Float[np.ndarray, "E N D"]
    after: Float[np.ndarray, "E N D"]
    accuracy_before: Float[np.ndarray, " E"]
    accuracy_after: Float[np.ndarray, " E"]
    alone: Float[np.ndarray, "E N D"] | None = None  # adapted as sets of one; None in files from before


@dataclass(frozen=True, eq=False)
class LoadedResult:
    """A result (`record`) and what lies beside its file."""

    record: Result
    path: Path  # of the result file
    directory: Path  # of the run
    score: Score
    unadapted: Score | None  # of the same tasks, with the prototypes as they are before adaptation
    scores: dict[str, Score]  # others on the same tasks, by name
    examples: Examples | None
    curves: Curves | None
    recipe: dict[str, Any]  # nested names joined by dots; empty if the run has none


def load_results(runs: Sequence[Path]) -> list[LoadedResult]:
    """The results of several runs, in the order given."""
    if not runs:
        raise UserError("got no run directory, expected at least one; `fewset train RECIPE` makes one")
    for path, times in Counter(path.resolve() for path in runs).items():
        if times > 1:
            raise UserError(f"{path} is given {times} times; name it once")
    return [load_result(path) for path in runs]


def load_result(run: Path) -> LoadedResult:
    """Read and check a run directory, or one of the other results of a run: `RUN/results/NAME.json`."""
    if not run.exists():
        raise UserError(f"there is no run directory {run}; `fewset train RECIPE` makes one")
    file = run / RESULT if run.is_dir() else run
    directory = file.parent if file.name == RESULT else file.parent.parent
    arrays = _Arrays(file, directory)
    record = read_result(file)
    _check_weights(record, file, directory)
    return LoadedResult(
        record=record,
        path=file,
        directory=directory,
        score=arrays.score(record.score_of(""), record.tasks),
        unadapted=None if record.before is None else arrays.score(record.before, record.tasks),
        scores={name: arrays.score(stored, record.tasks) for name, stored in record.scores.items()},
        examples=None if record.examples is None else arrays.examples(record.examples),
        curves=_curves(directory),
        recipe=_recipe(directory),
    )


def _check_weights(record: Result, file: Path, directory: Path) -> None:
    """Refuse a result that other weights made than those in its run."""
    weights = directory / WEIGHTS
    if record.weights_digest and weights.exists() and file_digest(weights) != record.weights_digest:
        raise broken_file(file, directory, f"was made by other weights than {weights}")


class _Arrays:
    """The arrays beside a result file; what is wrong with them becomes an error with the remedy."""

    def __init__(self, file: Path, directory: Path) -> None:
        self.file, self.directory = file, directory

    def score(self, stored: StoredScore, tasks: int) -> Score:
        """The score of the per-task values, which must be those that the recorded mean was taken of."""
        file, values = self._load(stored.per_task)
        if not isinstance(values, np.ndarray) or values.shape != (tasks,) or values.dtype.kind != "f":
            raise self._broken(file, f"is not an array of {tasks} floating numbers")
        if not ((values >= 0) & (values <= 1)).all():
            raise self._broken(file, "holds values outside 0..1")
        score = Score.of(values)
        got, recorded = (score.mean, score.ci95), (stored.mean, half_width(stored.ci95))
        # Results from before every interval was by Student's t have 1.96 in its place from 30 tasks on.
        close = partial(np.isclose, atol=1e-5, equal_nan=True)
        if not (close(got[0], recorded[0], rtol=0) and close(got[1], recorded[1], rtol=0.05)):
            raise self._broken(
                file,
                f"gives {got[0]:.6f} ± {got[1]:.6f}, but {self.file.name} says "
                f"{recorded[0]:.6f} ± {recorded[1]:.6f}",
            )
        return score

    def examples(self, name: str) -> Examples | None:
        file = self._beside(name)
        names = [item.name for item in fields(Examples) if item.default is MISSING]
        try:
            with open_zip(file) as archive:
                missing = [field for field in names if f"{field}.npy" not in archive.namelist()]
                if missing:
                    raise self._broken(file, f"lacks {', '.join(missing)}")
                names += ["alone"] if "alone.npy" in archive.namelist() else []
                arrays = {field: array_in(archive, field) for field in names}
        except UserError:
            raise
        except FileNotFoundError:
            raise self._broken(file, "is missing") from None
        except (OSError, ValueError) as error:
            raise self._broken(file, f"cannot be read, expected an .npz archive ({error})") from None
        shapes = {field: array.shape for field, array in arrays.items()}
        if not _fit_together(shapes):
            raise self._broken(file, f"holds arrays whose shapes do not fit together: {shapes}")
        for field, array in arrays.items():
            kind = "iu" if field in ("task", "query_labels") else "f"
            if array.dtype.kind not in kind or not np.isfinite(array).all():
                raise self._broken(file, f"holds values of the wrong type, or not finite, in {field}")
        labels, way = arrays["query_labels"], shapes["before"][1]
        if not ((labels >= 0) & (labels < way)).all():
            raise self._broken(file, f"holds query labels outside 0..{way - 1}")
        return Examples(**arrays) if len(labels) else None

    def _load(self, name: str) -> tuple[Path, Any]:
        """An array beside the result, without pickled objects."""
        file = self._beside(name)
        try:
            # A map of the file, so that no more memory is taken than the file has bytes, whatever it claims.
            return file, np.load(regular_file(file), mmap_mode="r", allow_pickle=False)
        except FileNotFoundError:
            raise self._broken(file, "is missing") from None
        except Exception as error:  # a damaged header makes NumPy raise almost anything
            raise self._broken(file, f"cannot be read ({error})") from None

    def _beside(self, name: str) -> Path:
        """The file of that name, which a result may have from anywhere."""
        try:
            return self.file.parent / plain_name(name, "the file")
        except UserError as error:
            raise self._broken(self.file, f"names a file elsewhere ({error})") from None

    def _broken(self, file: Path, what: str) -> UserError:
        return broken_file(file, self.directory, what)


def _fit_together(shapes: dict[str, tuple[int, ...]]) -> bool:
    """Whether the arrays of the example tasks agree on their sizes, with a plane to be found in them."""
    if len(shapes["query"]) != 3 or len(shapes["before"]) != 3:
        return False
    (examples, queries, dim), way = shapes["query"], shapes["before"][1]
    expected = dict.fromkeys(shapes, (examples,)) | {
        "query": (examples, queries, dim),
        "query_labels": (examples, queries),
        "before": (examples, way, dim),
        **dict.fromkeys({"after", "alone"} & shapes.keys(), (examples, way, dim)),
    }
    return shapes == expected and min(queries, dim) >= 2


def _curves(directory: Path) -> Curves | None:
    """The training curves; a run that was not trained here, such as imported weights, has none."""
    file = directory / METRICS
    if not file.exists():
        return None
    rows: list[dict[str, Any]] = []
    text = read_bytes(file, _LARGEST_METRICS).decode("utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            row = parse_json(line)
        except ValueError:
            row = None
        if not isinstance(row, dict) or not all(
            type(row.get(name)) in kinds for name, kinds in _EPOCH.items()
        ):
            raise UserError(
                f"line {number} of {file} is not the record of an epoch; "
                f"`fewset train {directory / RECIPE} --force` makes the run anew"
            )
        rows.append(row)
    if not rows:
        return None

    def column(name: str) -> Float[np.ndarray, " epochs"]:
        return np.array([np.nan if row.get(name) is None else row[name] for row in rows], dtype=np.float64)

    columns = {item.name: column(item.name) for item in fields(Curves) if item.name != "best"}
    best = max((place for place, row in enumerate(rows) if row.get("best")), default=None)
    return Curves(**columns, best=best)


def _recipe(directory: Path) -> dict[str, Any]:
    """The settings of the run, nested names joined by dots, without its card; empty if there is no recipe."""
    file = directory / RECIPE
    if not file.exists():
        return {}
    try:
        table = parse_toml(read_text(file))
    except (OSError, ValueError) as error:
        raise UserError(f"{file} is not valid TOML ({error}); mend it, or train anew with --force") from None
    return flattened({name: value for name, value in table.items() if name != "card"})
