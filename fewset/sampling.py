"""Which items make up task number `i`: a pure function of the seed and `i`.

Every class and every item gets a random key, a hash of (seed, task, class, item); a task takes the
classes with the smallest keys, and of each the items with the smallest keys. So any task can be drawn by
itself, on any process, in any order, and many tasks are drawn at once without a loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, UInt64

from fewset.errors import UserError


@dataclass(frozen=True)
class TaskSpec:
    """Which tasks to draw: `tasks` of them, of `way` classes, `shot` labelled items and `query` queries each."""

    way: int = 5
    shot: int = 1
    query: int = 15
    tasks: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("way", 1), ("shot", 1), ("query", 1), ("tasks", 1), ("seed", 0)):
            value = getattr(self, name)
            if value < least:
                raise UserError(f"{name} is {value}, expected {least} or more")


class ClassIndex:
    """The rows of each class in a table of items, ready to draw tasks from."""

    def __init__(self, labels: Int[np.ndarray, "items"], names: Sequence[str] | None = None) -> None:
        labels = np.asarray(labels)
        self.classes, inverse, self.counts = np.unique(labels, return_inverse=True, return_counts=True)
        self.names = [str(label) if names is None else names[label] for label in self.classes]
        most = int(self.counts.max(initial=0))
        order = np.argsort(inverse, kind="stable")
        starts = np.cumsum(self.counts) - self.counts
        self.rows = np.full((len(self.classes), most), -1, dtype=np.int64)
        self.rows[inverse[order], np.arange(len(labels)) - starts[inverse[order]]] = order

    def check(self, way: int, per_class: int) -> None:
        """Refuse tasks that cannot be drawn, naming the class and the numbers."""
        if len(self.classes) < way:
            raise UserError(
                f"{way} ways were asked for, but there are {len(self.classes)} classes here; lower the way"
            )
        if way and self.counts.min() < per_class:
            worst = int(self.counts.argmin())
            raise UserError(
                f"class {self.names[worst]!r} has {self.counts[worst]} items, but shot + query = {per_class} "
                f"were asked for; lower the shot or the query"
            )


def sample_tasks(index: ClassIndex, spec: TaskSpec, first: int, last: int) -> Int[np.ndarray, "T N KQ"]:
    """The rows of tasks `first` to `last` (excluded): shots first, then queries, class by class."""
    per_class = spec.shot + spec.query
    index.check(spec.way, per_class)
    tasks = np.arange(first, last, dtype=np.uint64)[:, None]
    classes = _smallest(_keys(spec.seed, tasks, np.arange(len(index.classes))), spec.way)
    keys = _keys(spec.seed, tasks[..., None], classes[..., None] + 1, np.arange(index.rows.shape[1]))
    keys[np.arange(index.rows.shape[1]) >= index.counts[classes][..., None]] = np.iinfo(np.uint64).max
    chosen = _smallest(keys, per_class)
    rows: Int[np.ndarray, "T N KQ"] = index.rows[classes[..., None], chosen]
    return rows


def mix(*parts: int) -> int:
    """A 63-bit seed from several numbers, for anything random that hangs on a step or an epoch."""
    return int(_keys(*(np.asarray(part, dtype=np.uint64) for part in parts)) >> np.uint64(1))


def _keys(*parts: int | np.ndarray) -> UInt64[np.ndarray, "..."]:
    """A hash of the parts, broadcast against each other (the finaliser of SplitMix64 after each part)."""
    state = np.asarray(0x9E3779B97F4A7C15, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for part in parts:
            state = state + np.asarray(part).astype(np.uint64) * np.uint64(0xD1342543DE82EF95)
            state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            state = state ^ (state >> np.uint64(31))
    return np.asarray(state)


def _smallest(keys: UInt64[np.ndarray, "*batch n"], count: int) -> Int[np.ndarray, "*batch count"]:
    """The positions of the `count` smallest keys of each row, in the order of the keys."""
    part = np.argpartition(keys, min(count, keys.shape[-1] - 1), axis=-1)[..., :count]
    order = np.argsort(np.take_along_axis(keys, part, axis=-1), axis=-1)
    return np.take_along_axis(part, order, axis=-1)
