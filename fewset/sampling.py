"""Which items make up task number `i`: a pure function of the seed and `i`.

Every class and every item gets a random key, a hash of (seed, task, class, item); a task takes the
classes with the smallest keys, and of each the items with the smallest keys. So any task can be drawn by
itself, on any process, in any order, and many tasks are drawn at once without a loop.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, UInt64

from fewset.errors import UserError

_LAST = np.iinfo(np.uint64).max  # the key of what must not be drawn


@dataclass(frozen=True)
class TaskSpec:
    """Which tasks to draw, and how many: `way` classes of `shot` labelled items and `query` queries each."""

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
    """The rows of each class in a table of items, ready to draw tasks from.

    Of items with the same origin (a photo and the sketches traced from it) at most one is in a task.
    `support` and `query` mark the items that may be labelled and those that may be queries: items of two
    domains, say. Without these each item is its own origin and may be both.
    """

    def __init__(
        self,
        labels: Int[np.ndarray, "items"],
        names: Sequence[str] | None = None,
        *,
        origins: Int[np.ndarray, "items"] | None = None,
        support: Bool[np.ndarray, "items"] | None = None,
        query: Bool[np.ndarray, "items"] | None = None,
    ) -> None:
        labels = np.asarray(labels)
        items = np.arange(len(labels))
        self.classes, inverse = np.unique(labels, return_inverse=True)
        self.names = [str(label) if names is None else names[label] for label in self.classes]
        origins, found_at, origin = np.unique(
            items if origins is None else origins, return_index=True, return_inverse=True
        )
        class_of = inverse[found_at]
        if (class_of[origin] != inverse).any():
            at = int((class_of[origin] != inverse).argmax())
            first, second = self.names[class_of[origin[at]]], self.names[inverse[at]]
            raise UserError(
                f"origin {origins[origin[at]]} has items of {first!r} and {second!r}, expected one class"
            )
        # A table (class, origin, item) of rows; -1 where a class has fewer origins or an origin fewer items.
        within_class, within_origin = _ranks(class_of), _ranks(origin)
        shape = (
            len(self.classes),
            *(int(ranks.max(initial=-1)) + 1 for ranks in (within_class, within_origin)),
        )
        rows = np.full(shape, -1, dtype=np.int64)
        rows[inverse, within_class[origin], within_origin] = items
        self.support, self.query = (
            rows if allowed is None else np.where((rows >= 0) & allowed[rows], rows, -1)
            for allowed in (support, query)
        )
        self.may_support: Bool[np.ndarray, "classes origins"] = np.any(self.support >= 0, axis=2)
        self.may_query: Bool[np.ndarray, "classes origins"] = np.any(self.query >= 0, axis=2)

    def check(self, way: int, shot: int, query: int) -> None:
        """Refuse tasks that cannot be drawn, naming the class and the numbers."""
        if len(self.classes) < way:
            raise UserError(
                f"{way} ways were asked for, but there are {len(self.classes)} classes here; lower the way"
            )
        shots, queries = self.may_support.sum(axis=1), self.may_query.sum(axis=1)
        both = (self.may_support & self.may_query).sum(axis=1)
        # The shots may take up to `shot` of the origins that would serve as queries, too.
        spare = np.minimum(shots - shot, queries - np.minimum(shot, both) - query)
        worst = int(spare.argmin())
        if spare[worst] >= 0:
            return
        has = f"{shots[worst]} items"
        if not shots[worst] == queries[worst] == both[worst]:
            has += f" for the support and {queries[worst]} for the queries ({both[worst]} for either)"
        raise UserError(
            f"class {self.names[worst]!r} has {has}, but shot + query = {shot + query} "
            f"({shot} + {query}) were asked for; lower the shot or the query"
        )


def sample_tasks(index: ClassIndex, spec: TaskSpec, first: int, last: int) -> Int[np.ndarray, "T N KQ"]:
    """The rows of tasks `first` to `last` (excluded): shots first, then queries, class by class."""
    index.check(spec.way, spec.shot, spec.query)
    tasks = np.arange(first, last, dtype=np.uint64)[:, None]
    classes = _smallest(_keys(spec.seed, tasks, np.arange(len(index.classes))), spec.way)
    keys = _item_keys(index, spec.seed, tasks, classes)
    if index.support is index.query:  # the same as two draws below, in half the time
        chosen = _smallest(np.where(index.may_query[classes], keys, _LAST), spec.shot + spec.query)
        return _items(index.query, spec.seed, tasks, classes, chosen)
    shots = _smallest(np.where(index.may_support[classes], keys, _LAST), spec.shot)
    np.put_along_axis(keys, shots, _LAST, axis=-1)
    queries = _smallest(np.where(index.may_query[classes], keys, _LAST), spec.query)
    return np.concatenate(
        [
            _items(index.support, spec.seed, tasks, classes, shots),
            _items(index.query, spec.seed, tasks, classes, queries),
        ],
        axis=-1,
    )


def sample_every_class(
    index: ClassIndex, query: int, seed: int, first: int, last: int
) -> Int[np.ndarray, "T classes Q"]:
    """For each task the rows of `query` queries of every class there is, in the order of the classes."""
    index.check(0, 0, query)
    tasks = np.arange(first, last, dtype=np.uint64)[:, None]
    classes = np.arange(len(index.classes))[None]
    keys = np.where(index.may_query, _item_keys(index, seed, tasks, classes), _LAST)
    return _items(index.query, seed, tasks, classes, _smallest(keys, query))


class HeldOut(NamedTuple):
    """The rows of a table in three parts, in ascending order."""

    train: Int[np.ndarray, "train"]
    val: Int[np.ndarray, "val"]
    test: Int[np.ndarray, "test"]


def hold_out(labels: Int[np.ndarray, "items"], share: float = 0.25, seed: int = 0) -> HeldOut:
    """Keep a share of each class's items out of the training: half of it to validate, half to test.

    Which ones is a pure function of the seed, the class and the place of an item among those of its class.
    The default keeps 150 of 600 items of miniImageNet, as the paper does for its generalised setting.
    """
    if not 0 < share < 1:
        raise UserError(f"the share to hold out is {share}, expected a number between 0 and 1")
    parts: list[list[np.ndarray]] = [[], [], []]
    classes, starts = np.unique(np.sort(labels), return_index=True)
    for label, rows in zip(classes, np.split(np.argsort(labels, kind="stable"), starts[1:]), strict=True):
        held = round(share * len(rows))
        if held < 2 or held == len(rows):
            raise UserError(
                f"{share} of the {len(rows)} items of class {label} are {held}, expected at least 2 and less "
                "than all; change the share"
            )
        drawn = rows[np.argsort(_keys(seed, int(label), np.arange(len(rows))))]
        for part, chosen in zip(
            parts, (drawn[held:], drawn[: held // 2], drawn[held // 2 : held]), strict=True
        ):
            part.append(chosen)
    return HeldOut(*(np.sort(np.concatenate(part)) for part in parts))


def mix(*parts: int) -> int:
    """A 63-bit seed from several numbers, for anything random that hangs on a step or an epoch."""
    return int(_keys(*(np.asarray(part, dtype=np.uint64) for part in parts)) >> np.uint64(1))


def _ranks(groups: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """The place of each element among those of its own group: 0, 1, …"""
    order = np.argsort(groups, kind="stable")
    counts = np.bincount(groups)
    ranks = np.empty(len(groups), dtype=np.int64)
    ranks[order] = np.arange(len(groups)) - (np.cumsum(counts) - counts)[groups[order]]
    return ranks


def _item_keys(
    index: ClassIndex, seed: int, tasks: UInt64[np.ndarray, "T 1"], classes: Int[np.ndarray, "_ N"]
) -> UInt64[np.ndarray, "T N origins"]:
    return _keys(seed, tasks[..., None], classes[..., None] + 1, np.arange(index.may_query.shape[1]))


def _items(
    rows: Int[np.ndarray, "classes origins items"],
    seed: int,
    tasks: UInt64[np.ndarray, "T 1"],
    classes: Int[np.ndarray, "_ N"],
    origins: Int[np.ndarray, "T N n"],
) -> Int[np.ndarray, "T N n"]:
    """One row of each origin that was drawn."""
    candidates = rows[classes[..., None], origins]
    if rows.shape[2] > 1:
        parts = (tasks[..., None, None], classes[..., None, None] + 1, origins[..., None])
        keys = _keys(seed, *parts, np.arange(rows.shape[2]))
        drawn = np.where(candidates >= 0, keys, _LAST).argmin(axis=-1)
        candidates = np.take_along_axis(candidates, drawn[..., None], axis=-1)
    chosen: Int[np.ndarray, "T N n"] = candidates[..., 0]
    return chosen


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
