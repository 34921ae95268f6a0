"""The results of runs, read from their directories and checked, and compared on the tasks they share."""

import json
import tomllib
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from fewset.evaluation.calibration import Curve
from fewset.experiments.run_directory import RECIPE, RESULT
from fewset.runtime.errors import UserError
from fewset.tasks.scores import Difference, Score, compare
from fewset.training.checkpoint import METRICS

FORMAT = 1

# Two results are paired, task by task, only when all of these agree. Their number of tasks may differ: task
# number i is the same task in both, so they are paired on those that both were scored on.
TASK_FIELDS = ("data_digest", "split", "domain", "setting", "seen", "way", "shot", "query", "seed")

_FIELDS: dict[str, tuple[type, ...]] = {
    "run": (str,),
    "method": (str,),
    "setting": (str,),
    "data": (str,),
    "data_digest": (str,),
    "split": (str,),
    "domain": (str, NoneType),
    "way": (int,),
    "shot": (int,),
    "query": (int,),
    "tasks": (int,),
    "seed": (int,),
    "command": (str,),
    "commit": (str,),
    "versions": (dict,),
    "seconds": (int, float),
    "before": (dict, NoneType),
    "examples": (str, NoneType),
}
_SCORE_FIELDS: dict[str, tuple[type, ...]] = {
    "mean": (int, float),
    "ci95": (int, float),
    "per_task": (str,),
}
# Fields that only some settings have; without them they are as here.
_OPTIONAL: dict[str, tuple[tuple[type, ...], Any]] = {
    "scores": ((dict,), {}),
    "seen": ((str, NoneType), None),
    "variant": ((str, NoneType), None),
    "calibration": ((dict, NoneType), None),
    "curve": ((dict, NoneType), None),
}
_NUMBER = (int, float, NoneType)
_EPOCH: dict[str, tuple[type, ...]] = {
    "epoch": (int,),
    "loss": _NUMBER,
    "accuracy": _NUMBER,
    "val_accuracy": _NUMBER,
    "val_ci95": _NUMBER,
    "best": (bool, NoneType),
}
_EXAMPLE_FIELDS = ("task", "query", "query_labels", "before", "after", "accuracy_before", "accuracy_after")


@dataclass(frozen=True, eq=False)
class Curves:
    """One value an epoch; NaN where an epoch has none. `best` is the row of the weights that were kept."""

    epoch: Float[np.ndarray, "epochs"]
    loss: Float[np.ndarray, "epochs"]
    accuracy: Float[np.ndarray, "epochs"]
    val_accuracy: Float[np.ndarray, "epochs"]
    val_ci95: Float[np.ndarray, "epochs"]
    seconds: Float[np.ndarray, "epochs"]
    best: int | None


@dataclass(frozen=True, eq=False)
class Examples:
    """`E` example tasks: the embeddings of the queries, and the prototypes before and after adaptation."""

    task: Int[np.ndarray, "E"]
    query: Float[np.ndarray, "E M D"]
    query_labels: Int[np.ndarray, "E M"]
    before: Float[np.ndarray, "E N D"]
    after: Float[np.ndarray, "E N D"]
    accuracy_before: Float[np.ndarray, "E"]
    accuracy_after: Float[np.ndarray, "E"]


@dataclass(frozen=True, eq=False)
class Result:
    """What a run's files say: the score, the tasks it was made on, and how it came to be."""

    path: Path  # of the result file
    directory: Path  # of the run
    run: str
    method: str
    setting: str
    data: str
    data_digest: str
    split: str
    domain: str | None
    way: int
    shot: int
    query: int
    tasks: int
    seed: int
    command: str
    commit: str
    versions: dict[str, Any]
    seconds: float
    score: Score
    before: Score | None  # of the same tasks, with the prototypes as they are before adaptation
    examples: Examples | None
    curves: Curves | None
    recipe: dict[str, Any]
    # Of some settings only
    scores: dict[str, Score]  # by name, on the same tasks
    seen: str | None  # generalised: which items are the queries of the seen classes
    variant: str | None  # transductive
    constant: float | None  # generalised: what was subtracted from the scores of seen classes
    curve: Curve | None  # generalised: seen against unseen accuracy


class Comparison(NamedTuple):
    """A result beside the others: `difference` is its score less that of `baseline`, on the same tasks.

    Both are None for a baseline itself and for a result whose tasks no other result shares, which is
    `alone`. `gain` is what the adaptation brings, None where there is none.
    """

    result: Result
    label: str
    gain: Difference | None
    baseline: str | None
    difference: Difference | None
    alone: bool
    tasks: int  # that the difference is over


def read_results(runs: Sequence[Path]) -> list[Result]:
    """The results of several runs, in the order given."""
    if not runs:
        raise UserError("got no run directory, expected at least one; `fewset train RECIPE` makes one")
    for path, times in Counter(path.resolve() for path in runs).items():
        if times > 1:
            raise UserError(f"{path} is given {times} times; name it once")
    return [read_result(path) for path in runs]


def read_result(run: Path) -> Result:
    """Read and check a run directory, or one of the other results of a run: `RUN/results/NAME.json`."""
    if not run.exists():
        raise UserError(f"there is no run directory {run}; `fewset train RECIPE` makes one")
    file = run / RESULT if run.is_dir() else run
    directory = file.parent.parent if file.parent.name == "results" else file.parent
    reader = _Reader(file, directory)
    record = reader.record()
    before, examples = record["before"], record["examples"]
    return Result(
        path=file,
        directory=directory,
        score=reader.score(record, record["tasks"]),
        before=None if before is None else reader.score(before, record["tasks"]),
        examples=None if examples is None else reader.examples(examples),
        curves=_curves(directory),
        recipe=_recipe(directory),
        **{name: record[name] for name in _FIELDS if name not in ("before", "examples", "seconds")},
        seconds=float(record["seconds"]),
        scores={name: reader.score(score, record["tasks"]) for name, score in record["scores"].items()},
        seen=record["seen"],
        variant=record["variant"],
        constant=None if record["calibration"] is None else reader.constant(record["calibration"]),
        curve=None if record["curve"] is None else reader.curve(record["curve"]),
    )


def compare_results(results: Sequence[Result], baseline: int | None = None) -> list[Comparison]:
    """Each result against the baseline: the one at that place in the list, which must share all tasks.

    Without a place, the baseline of a result is ProtoNet, or else the first one given, among those that
    share its tasks.
    """
    others = [_baseline_of(item, results) if baseline is None else results[baseline] for item in results]
    labels = dict(zip(results, _labels(results), strict=True))
    return [
        Comparison(
            result,
            labels[result],
            gain=None if result.before is None else compare(result.score, result.before),
            baseline=None if other is result else labels[other],
            difference=None if other is result else difference(result, other),
            alone=others.count(result) == 1 and other is result,
            tasks=min(result.tasks, other.tasks),
        )
        for result, other in zip(results, others, strict=True)
    ]


def difference(first: Result, second: Result) -> Difference:
    """The paired difference first - second on the tasks of both, or an error that says why there is none."""
    if differing_fields(first, second):
        raise UserError(
            f"{first.path} and {second.path} are not on the same tasks ({describe_fields(first, second)}); "
            "score both alike with `fewset eval`"
        )
    shared = min(first.tasks, second.tasks)
    return compare(*(Score.of(result.score.per_task[:shared]) for result in (first, second)))


def differing_fields(first: Result, second: Result) -> list[str]:
    """The fields, of those that define the tasks, in which two results differ."""
    return [name for name in TASK_FIELDS if getattr(first, name) != getattr(second, name)]


def describe_fields(first: Result, second: Result) -> str:
    """How the tasks of two results differ, in words: "shot is 5, not 1"."""
    return ", ".join(
        f"{name} is {getattr(first, name)}, not {getattr(second, name)}"
        for name in differing_fields(first, second)
    )


def _baseline_of(result: Result, results: Sequence[Result]) -> Result:
    """The result on the same tasks that `result` is measured against; possibly itself."""
    candidates = [other for other in results if not differing_fields(result, other)]
    return next((other for other in candidates if other.method == "ProtoNet"), candidates[0])


def _labels(results: Sequence[Result]) -> list[str]:
    """A name for each result, as short as tells it from the others."""
    candidates = [
        (
            ", ".join(filter(None, (result.method, result.variant))),
            f"{result.method}, {result.way}-way {result.shot}-shot",
            ", ".join(filter(None, (result.method, result.setting, result.variant, result.domain))),
            f"{result.method} ({result.run})",
            f"{result.method} ({result.run}, {result.path.stem})",
            f"{result.method} ({result.path})",
        )
        for result in results
    ]
    counts = Counter(name for names in candidates for name in names)
    return [next(name for name in names if counts[name] == 1 or name == names[-1]) for names in candidates]


class _Reader:
    """A result file and the arrays beside it; what is wrong with them becomes an error with the remedy."""

    def __init__(self, file: Path, directory: Path) -> None:
        self.file = file
        self.directory = directory

    def record(self) -> dict[str, Any]:
        record = self._object(self._text())
        if record.get("format") != FORMAT:
            raise self._broken(self.file, f"has format {record.get('format')!r}, expected {FORMAT}")
        record = {name: default for name, (_, default) in _OPTIONAL.items()} | record
        self._check(record, _FIELDS | _SCORE_FIELDS | {name: kinds for name, (kinds, _) in _OPTIONAL.items()})
        for name, score in record["scores"].items():
            if not isinstance(score, dict):
                raise self._broken(self.file, f"has {score!r} as the score {name!r}, expected an object")
            self._check(score, _SCORE_FIELDS)
        if record["before"] is not None:
            self._check(record["before"], _SCORE_FIELDS)
        elif record["examples"] is not None:
            raise self._broken(self.file, "has examples of an adaptation, but no score before it")
        # Names end up in terminals, tables and pages: one line of visible characters each.
        names = ("run", "method", "setting", "data", "split", "domain", "seen", "variant")
        texts = {name: record[name] for name in names} | {"scores": "".join(record["scores"])}
        for name, text in texts.items():
            if not (text or "").isprintable():
                raise self._broken(self.file, f"has control characters in {name}: {text!r}")
        return record

    def score(self, record: dict[str, Any], tasks: int) -> Score:
        """The score of the per-task values, which must be those that the recorded mean was taken of."""
        file, values = self._load(record["per_task"])
        if not isinstance(values, np.ndarray) or values.shape != (tasks,) or values.dtype.kind != "f":
            raise self._broken(file, f"is not an array of {tasks} floating numbers")
        if not ((values >= 0) & (values <= 1)).all():
            raise self._broken(file, "holds values outside 0..1")
        score = Score.of(values)
        got, recorded = (score.mean, score.ci95), (record["mean"], record["ci95"])
        if not np.allclose(got, recorded, rtol=0, atol=1e-5, equal_nan=True):
            raise self._broken(
                file,
                f"gives {score.mean:.6f} ± {score.ci95:.6f}, but {self.file.name} says "
                f"{record['mean']:.6f} ± {record['ci95']:.6f}",
            )
        return score

    def constant(self, calibration: dict[str, Any]) -> float:
        return float(self._numbers([calibration.get("constant")], "the calibration constant")[0])

    def curve(self, curve: dict[str, Any]) -> Curve:
        constants, seen, unseen = (
            self._numbers(curve.get(name), f"the curve's {name}") for name in ("constants", "seen", "unseen")
        )
        if not len(constants) == len(seen) == len(unseen):
            raise self._broken(self.file, "has a curve whose parts differ in length")
        return Curve(constants, seen, unseen, float(self._numbers([curve.get("area")], "the area")[0]))

    def _numbers(self, values: Any, what: str) -> Float[np.ndarray, "n"]:
        """A list of numbers, in which the infinite ones are written as "inf" and "-inf"."""
        good = isinstance(values, list) and all(
            type(value) in (int, float) or value in ("inf", "-inf") for value in values
        )
        if not good:
            raise self._broken(self.file, f"has {values!r} for {what}, expected numbers")
        return np.array([float(value) for value in values], dtype=np.float64)

    def examples(self, name: str) -> Examples | None:
        file, archive = self._load(name)
        if isinstance(archive, np.ndarray):
            raise self._broken(file, "is a single array, expected an .npz archive")
        with archive:
            missing = [field for field in _EXAMPLE_FIELDS if field not in archive]
            if missing:
                raise self._broken(file, f"lacks {', '.join(missing)}")
            try:
                arrays = {field: archive[field] for field in _EXAMPLE_FIELDS}
            except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
                raise self._broken(file, f"cannot be read ({error})") from None
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

    def _text(self) -> str:
        try:
            return self.file.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise UserError(
                f"{self.file} is missing: finish the run with `fewset train RECIPE --resume`, "
                f"or score it with `fewset eval {self.directory}`"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise self._broken(self.file, f"cannot be read ({error})") from None

    def _object(self, text: str) -> dict[str, Any]:
        try:
            record = json.loads(text)
        except json.JSONDecodeError as error:
            raise self._broken(self.file, f"is not JSON ({error})") from None
        if not isinstance(record, dict):
            raise self._broken(self.file, "does not hold a JSON object")
        return record

    def _check(self, record: dict[str, Any], fields: dict[str, tuple[type, ...]]) -> None:
        missing = [name for name in fields if name not in record]
        if missing:
            raise self._broken(self.file, f"lacks {', '.join(missing)}")
        for name, kinds in fields.items():
            if type(record[name]) not in kinds:  # not isinstance: true is no number
                expected = " or ".join("null" if kind is NoneType else kind.__name__ for kind in kinds)
                raise self._broken(self.file, f"has {name} = {record[name]!r}, expected {expected}")

    def _load(self, name: str) -> tuple[Path, Any]:
        """An .npy array or an .npz archive; neither may hold pickled objects."""
        file = self.file.parent / name
        try:
            return file, np.load(file, allow_pickle=False)
        except FileNotFoundError:
            raise self._broken(file, "is missing") from None
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise self._broken(file, f"cannot be read ({error})") from None

    def _broken(self, file: Path, what: str) -> UserError:
        return UserError(f"{file} {what}; `fewset eval {self.directory}` writes it anew")


def _fit_together(shapes: dict[str, tuple[int, ...]]) -> bool:
    """Whether the arrays of the example tasks agree on their sizes, with a plane to be found in them."""
    if len(shapes["query"]) != 3 or len(shapes["before"]) != 3:
        return False
    (examples, queries, dim), way = shapes["query"], shapes["before"][1]
    expected = dict.fromkeys(_EXAMPLE_FIELDS, (examples,)) | {
        "query": (examples, queries, dim),
        "query_labels": (examples, queries),
        "before": (examples, way, dim),
        "after": (examples, way, dim),
    }
    return shapes == expected and min(queries, dim) >= 2


def _curves(directory: Path) -> Curves | None:
    """The training curves; a run that was not trained here, such as imported weights, has none."""
    file = directory / METRICS
    if not file.exists():
        return None
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
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

    def column(name: str) -> Float[np.ndarray, "epochs"]:
        return np.array([np.nan if row.get(name) is None else row[name] for row in rows], dtype=np.float64)

    return Curves(
        epoch=column("epoch"),
        loss=column("loss"),
        accuracy=column("accuracy"),
        val_accuracy=column("val_accuracy"),
        val_ci95=column("val_ci95"),
        seconds=column("seconds"),
        best=max((place for place, row in enumerate(rows) if row.get("best")), default=None),
    )


def _recipe(directory: Path) -> dict[str, Any]:
    """The settings of the run, nested names joined by dots; empty if the run has no recipe."""
    file = directory / RECIPE
    if not file.exists():
        return {}
    try:
        return _flat(tomllib.loads(file.read_text(encoding="utf-8")))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{file} is not valid TOML ({error}); mend it, or train anew with --force") from None


def _flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat
