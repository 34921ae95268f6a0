"""The record of a measurement: a JSON file, with the value of each task in a file beside it."""

from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from fewset.core.errors import UserError
from fewset.io.files import replacing, write_json
from fewset.io.reading import read_record

_FORMAT = 1
FILE, PER_TASK, TIMES = "methods.json", "per_task.npz", "times.json"


@dataclass(frozen=True)
class MethodNumber:
    """A method at a number of shots. `source` says what it is made of."""

    row: str
    kind: str
    shot: int
    mean: float
    ci95: float
    chosen: dict[str, Any]
    """The options that were chosen on validation tasks."""
    source: dict[str, Any]
    commit: str
    set_adds: dict[str, float | None] | None = None
    """What the set adds to a method with an adapter: the mean and half its interval."""


@dataclass(frozen=True)
class MethodsRecord:
    """All methods on one set of embeddings."""

    data: str
    data_digest: str
    dim: int
    made_from: dict[str, str]
    """The digests of the weights and the images behind the embeddings, where they are known."""
    command: str
    numbers: tuple[MethodNumber, ...] = field(default=())
    format: int = _FORMAT


@dataclass(frozen=True)
class MethodTimes:
    """How many seconds each method takes for the tasks, and on which machine."""

    tasks: int
    seconds: dict[str, dict[str, float]]
    """By row, and then by shot."""
    machine: dict[str, Any]
    command: str
    format: int = _FORMAT


def key_of(row: str, shot: int) -> str:
    """The name of a number among the values of each task."""
    return f"{row}, {shot}-shot"


def write_record(
    record: MethodsRecord, per_task: dict[str, Float32[np.ndarray, " tasks"]], out: Path
) -> None:
    """The values of each task first: a number that is in the record has them."""
    with replacing(out / PER_TASK) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **per_task)  # type: ignore[arg-type]
    write_json(out / FILE, asdict(record))


def read_record_of(out: Path) -> MethodsRecord:
    """The record in a directory, checked."""
    file = out / FILE
    if not file.exists():
        raise UserError(f"there is no {file}; `python -m benchmarks accuracy TABLE` writes it")
    return read_record(MethodsRecord, file, "methods", _FORMAT, partial(_broken, file))


def read_per_task(out: Path) -> dict[str, Float32[np.ndarray, " tasks"]]:
    """The accuracy of each task by the key of its number."""
    file = out / PER_TASK
    if not file.exists():
        raise _broken(file, "is missing")
    with np.load(file) as arrays:
        return {key: arrays[key] for key in arrays.files}


def read_times(out: Path) -> MethodTimes | None:
    """The times, where they were measured."""
    file = out / TIMES
    return read_record(MethodTimes, file, "times", _FORMAT, partial(_broken, file)) if file.exists() else None


def _broken(path: Path, what: str) -> UserError:
    return UserError(f"{path} {what}; remove it, and `python -m benchmarks accuracy` writes it again")
