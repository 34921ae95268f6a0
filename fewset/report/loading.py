"""Results with the files beside them: the value of each task, example tasks, training curves."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
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
    alone: Float[np.ndarray, "E N D"] | None = None  # adapted as sets of one, where the model has this


@dataclass(frozen=True, eq=False)
class LoadedResult:
    """A result (`record`) and the files beside it."""

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
    record = read_result(file)
    weights = directory / WEIGHTS
    if record.weights_digest and weights.exists() and file_digest(weights) != record.weights_digest:
        raise broken_file(file, directory, f"was made by other weights than {weights}")

    remedy = f"`fewset eval {directory}` writes it again"

    def score(stored: StoredScore) -> Score:
        return _score(_beside(file, stored.per_task, remedy), remedy, file.name, stored, record.tasks)

    examples = None if record.examples is None else _beside(file, record.examples, remedy)
    return LoadedResult(
        record=record,
        path=file,
        directory=directory,
        score=score(record.score_of("")),
        unadapted=None if record.before is None else score(record.before),
        scores={name: score(stored) for name, stored in record.scores.items()},
        examples=None if examples is None else _examples(examples, remedy),
        curves=_curves(directory),
        recipe=_recipe(directory),
    )


@contextmanager
def _reading(file: Path, remedy: str) -> Iterator[None]:
    """Whatever is wrong with a file becomes one error that names the file and the remedy."""
    try:
        yield
    except FileNotFoundError:
        raise UserError(f"{file} is missing; {remedy}") from None
    except Exception as error:  # a damaged file makes the libraries raise almost anything
        raise UserError(f"{file} cannot be read ({error}); {remedy}") from None


def _score(place: Path, remedy: str, record: str, stored: StoredScore, tasks: int) -> Score:
    """The score of the per-task values; its mean and interval must be those of the record."""
    with _reading(place, remedy):
        # A map of the file takes no more memory than the file has bytes, whatever its header says.
        values = np.load(regular_file(place), mmap_mode="r", allow_pickle=False)
        if values.shape != (tasks,) or values.dtype.kind != "f":
            raise ValueError(f"it is not an array of {tasks} floating-point values")
        if not ((values >= 0) & (values <= 1)).all():
            raise ValueError("it has values outside 0..1")
        score = Score.of(values)
        half = half_width(stored.ci95)
        # Earlier results have 1.96 in place of Student's t from 30 tasks on.
        same_mean = np.isclose(score.mean, stored.mean, atol=1e-5, rtol=0)
        if not (same_mean and np.isclose(score.ci95, half, atol=1e-5, rtol=0.05, equal_nan=True)):
            got, recorded = f"{score.mean:.6f} ± {score.ci95:.6f}", f"{stored.mean:.6f} ± {half:.6f}"
            raise ValueError(f"its mean is {got}, but {record} has {recorded}")
    return score


def _examples(place: Path, remedy: str) -> Examples | None:
    with _reading(place, remedy), open_zip(place) as archive:
        names = [item.name for item in fields(Examples)]
        if "alone.npy" not in archive.namelist():
            names.remove("alone")
        arrays = {field: array_in(archive, field) for field in names}
        (count, queries, dim), way = arrays["query"].shape, arrays["before"].shape[1]
        shapes = {"query": (count, queries, dim), "query_labels": (count, queries)}
        shapes |= dict.fromkeys(("before", "after", "alone"), (count, way, dim))
        for field, array in arrays.items():
            kind = "iu" if field in ("task", "query_labels") else "f"
            fits = array.shape == shapes.get(field, (count,)) and array.dtype.kind in kind
            if not fits or not np.isfinite(array).all():
                raise ValueError(f"{field} has another shape or type than it should, or is not finite")
        labels = arrays["query_labels"]
        if min(queries, dim) < 2 or not ((labels >= 0) & (labels < way)).all():
            raise ValueError("its tasks are too small, or have labels of no class")
    return Examples(**arrays) if count else None


def _beside(file: Path, name: str, remedy: str) -> Path:
    """The path of a file of this name beside the result."""
    with _reading(file, remedy):
        return file.parent / plain_name(name, "the file")


def _curves(directory: Path) -> Curves | None:
    """The training curves; a run that was not trained here, such as imported weights, has none."""
    file = directory / METRICS
    if not file.exists():
        return None
    with _reading(file, f"`fewset train {directory / RECIPE} --force` trains the run again"):
        lines = read_bytes(file, _LARGEST_METRICS).decode().splitlines()
        rows = [parse_json(line) for line in lines]
        columns = {
            item.name: np.array([row.get(item.name) for row in rows], dtype=np.float64)  # None becomes NaN
            for item in fields(Curves)
            if item.name != "best"
        }
        if np.isnan(columns["epoch"]).any() or any(column.ndim != 1 for column in columns.values()):
            raise ValueError("a line is not the record of an epoch")
        best = max((place for place, row in enumerate(rows) if row.get("best")), default=None)
    return Curves(**columns, best=best) if rows else None


def _recipe(directory: Path) -> dict[str, Any]:
    """The settings of the run, nested names joined by dots, without its card; empty if there is no recipe."""
    file = directory / RECIPE
    if not file.exists():
        return {}
    with _reading(file, "fix it, or train again with --force"):
        table = parse_toml(read_text(file))
    return flattened({name: value for name, value in table.items() if name != "card"})
