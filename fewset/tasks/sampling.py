"""Which items make up task number `i`: a pure function of the seed and `i`.

Every class and every item gets a random key, a hash of (seed, task, class, item); a task takes the
classes with the smallest keys, and of each the items with the smallest keys. So any task can be drawn by
itself, on any process, in any order, and many tasks are drawn at once without a loop.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int, UInt64

from fewset.core.errors import UserError
from fewset.core.randomness import hash_keys
from fewset.tasks.spec import TaskSpec

_LAST = np.iinfo(np.uint64).max  # the key of what must not be drawn
_KEYS = 2**16  # of items, drawn at once: with their copies they stay in the cache


class ClassIndex:
    """The rows of each class in a table of items, ready to draw tasks from.

    `support` and `query` mark the items that may be labelled and those that may be queries, such as the
    items of two domains: then a query never has the origin of a shot (a photo, a sketch traced from it).
    In a table of mixed `domains` the items of an origin are in a task from one of its domains only.
    Within a domain, items of one origin may be in one task.

    `nearest` has the other labels of each label, the nearest first and -1 behind them, for related classes.
    """

    def __init__(
        self,
        labels: Int[np.ndarray, " items"],
        names: Sequence[str] | None = None,
        *,
        origins: Int[np.ndarray, " items"] | None = None,
        domains: Int[np.ndarray, " items"] | None = None,
        support: Bool[np.ndarray, " items"] | None = None,
        query: Bool[np.ndarray, " items"] | None = None,
        nearest: Int[np.ndarray, "labels others"] | None = None,
    ) -> None:
        self.classes, inverse = np.unique(labels, return_inverse=True)
        if names is not None and ((self.classes < 0) | (self.classes >= len(names))).any():
            raise UserError(
                f"the labels are from {self.classes[0]} to {self.classes[-1]}, expected 0 to "
                f"{len(names) - 1}: there are {len(names)} class names"
            )
        self.names = [str(label) if names is None else names[label] for label in self.classes]
        self.nearest = None if nearest is None else _places_of(nearest[self.classes], self.classes)
        items = np.arange(len(inverse))
        self.rows = _table(inverse, items)  # -1 where a class has fewer items than another
        there = self.rows >= 0
        self.may_support, self.may_query = (
            there if allowed is None else there & allowed[self.rows] for allowed in (support, query)
        )
        self.shots, self.queries = self.may_support.sum(axis=1), self.may_query.sum(axis=1)
        self.two_roles = self.may_support is not self.may_query
        self.full = bool(self.may_query.all())  # each class has as many items, and each may be a query
        origin = items if origins is None else np.unique(origins, return_inverse=True)[1]
        class_of = np.zeros(origin.max(initial=-1) + 1, dtype=np.int64)
        class_of[origin] = inverse
        for item in np.flatnonzero(class_of[origin] != inverse):
            first, second = (self.names[label] for label in (class_of[origin[item]], inverse[item]))
            raise UserError(f"items of {first!r} and {second!r} have one origin, expected those of one class")
        self.origins = origin[self.rows]
        if self.two_roles:
            # At most, a shot rules out the queries of the origin that has most of them, the next shot …
            shots, costs = (
                np.bincount(self.origins[may], minlength=len(class_of))
                for may in (self.may_support, self.may_query)
            )
            costs[shots == 0] = 0
            order = np.argsort(-costs)
            highest = np.maximum(_table(class_of[order], costs[order]), 0)
            self.ruled_out = np.cumsum(np.pad(highest, ((0, 0), (1, 0))), axis=1)
        self.mixed = False
        if origins is not None and domains is not None:
            self.mixed = True
            pairs, pair, sizes = np.unique(
                np.stack([origin, domains]), axis=1, return_inverse=True, return_counts=True
            )
            place = _ranks(pairs[0])  # of a domain among those of the origin
            self.turn, self.turns = place[pair][self.rows], np.bincount(pairs[0])[self.origins]
            fewest = np.minimum.reduceat(sizes, np.flatnonzero(place == 0))
            self.shots = self.queries = np.bincount(class_of, weights=fewest).astype(np.int64)

    @property
    def digest(self) -> str:
        """The sha256 of what tasks are drawn from: indices with the same digest give the same tasks."""
        total = hashlib.sha256()
        turns = (self.turn,) if self.mixed else ()
        near = () if self.nearest is None else (self.nearest,)
        for array in (self.rows, self.may_support, self.may_query, self.origins, *turns, *near):
            total.update(f"{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        return total.hexdigest()

    def spare(self, shot: int, query: int) -> Int[np.ndarray, " classes"]:
        """How many items of each class are left over by such a task; negative where it has too few."""
        ruled_out = np.full(len(self.classes), shot)
        if self.two_roles:
            ruled_out = self.ruled_out[:, min(shot, self.ruled_out.shape[1] - 1)]
        spare: np.ndarray = np.minimum(self.shots - shot, self.queries - ruled_out - query)
        return spare

    def check(self, way: int, shot: int, query: int) -> None:
        """Raise if such tasks cannot be drawn; the message names the class and sizes that would work."""
        if len(self.classes) < way:
            raise UserError(
                f"the way is {way}, but there are {len(self.classes)} classes here; lower the way to "
                f"{len(self.classes)} or less"
            )
        spare = self.spare(shot, query)
        worst = int(spare.argmin())
        if spare[worst] < 0:
            has = f"{self.shots[worst]} items"
            if self.two_roles:
                has += f" for the support and {self.queries[worst]} for the queries"
            if self.two_roles or self.mixed:
                has += " (a task has each origin in one domain only)"
            raise UserError(
                f"class {self.names[worst]!r} has {has}, but shot + query = {shot + query} ({shot} + "
                f"{query}); {self._remedy(way, shot, query)}"
            )

    def anchors(self, way: int, related: int) -> Bool[np.ndarray, " classes"]:
        """Which classes have enough others among their nearest for tasks of related classes."""
        if self.nearest is None:
            raise UserError("the set does not say which classes are near; run `fewset data relate SET`")
        enough: np.ndarray = (self.nearest[:, :related] >= 0).sum(axis=1) >= way - 1
        if not enough.any():
            raise UserError(
                f"no class has the {way - 1} related classes that a {way}-way task needs; lower the way, or "
                "relate the set by an encoder: `fewset data relate SET --encoder efficientnet-lite0`"
            )
        return enough

    def _remedy(self, way: int, shot: int, query: int) -> str:
        """Smaller sizes that would work."""
        most = self.rows.shape[1] + 1
        queries = [fewer for fewer in range(1, min(query, most)) if (self.spare(shot, fewer) >= 0).all()]
        shots = [fewer for fewer in range(1, min(shot, most)) if (self.spare(fewer, query) >= 0).all()]
        fits = [f"lower the query to {queries[-1]}"] if queries else []
        fits += [f"lower the shot to {shots[-1]}"] if shots else []
        small = self.spare(shot, query) < 0
        if len(self.classes) - small.sum() >= max(way, 1):
            fits.append(f"leave out the {small.sum()} classes that are too small (--skip-small-classes)")
        return ", or ".join(fits) or "take a set with more items a class"


def sample_tasks(index: ClassIndex, spec: TaskSpec, first: int, last: int) -> Int[np.ndarray, "T N KQ"]:
    """The rows of tasks `first` to `last` (excluded): shots first, then queries, class by class."""
    index.check(spec.way, spec.shot, spec.query)
    some = max(1, _KEYS // (spec.way * index.rows.shape[1]))
    starts = range(first, max(last, first + 1), some)
    return np.concatenate([_draw(index, spec, start, min(start + some, last)) for start in starts])


def _draw(index: ClassIndex, spec: TaskSpec, first: int, last: int) -> Int[np.ndarray, "T N KQ"]:
    """The rows of a few tasks, drawn at once."""
    tasks = np.arange(first, last, dtype=np.uint64)[:, None]
    classes = _classes_of(index, spec, tasks)
    keys = _item_keys(index, spec.seed, tasks, classes)
    if index.two_roles:
        shots = _smallest(np.where(index.may_support[classes], keys, _LAST), spec.shot)
        origins = index.origins[classes]
        taken = np.take_along_axis(origins, shots, axis=-1)
        free = index.may_query[classes] & (origins[..., None] != taken[..., None, :]).all(axis=-1)
        queries = _smallest(np.where(free, keys, _LAST), spec.query)
        chosen = np.concatenate([shots, queries], axis=-1)
    else:  # the same in one draw
        if not index.full:
            keys = np.where(index.may_query[classes], keys, _LAST)
        chosen = _smallest(keys, spec.shot + spec.query)
    rows: np.ndarray = index.rows[classes[..., None], chosen]
    return rows


def _classes_of(
    index: ClassIndex, spec: TaskSpec, tasks: UInt64[np.ndarray, "T 1"]
) -> Int[np.ndarray, "T N"]:
    """The classes of each task: independent ones, or one class and others of its nearest."""
    keys = hash_keys(spec.seed, tasks, np.arange(len(index.classes)))
    if not spec.related:
        return _smallest(keys, spec.way)
    anchors = _smallest(np.where(index.anchors(spec.way, spec.related), keys, _LAST), 1)
    assert index.nearest is not None
    near = index.nearest[anchors[:, 0], : spec.related]
    others = _smallest(np.where(near >= 0, np.take_along_axis(keys, near, axis=1), _LAST), spec.way - 1)
    return np.concatenate([anchors, np.take_along_axis(near, others, axis=1)], axis=1)


def sample_apart(index: ClassIndex, spec: TaskSpec, first: int, last: int) -> Int[np.ndarray, "T N KQ"]:
    """As `sample_tasks`, but no query has the origin of a shot, within a domain too.

    For each task the origins of a class are shuffled. The last of them, as few as have enough items, are for
    the queries. The others are for the shots; if there are more of them than shots, the rest is for the
    queries. Shots and queries each go round their origins, so that they repeat one as late as possible.
    """
    index.check(spec.way, spec.shot, spec.query)
    most = queries_apart(index, spec.shot)
    if spec.query > most:
        raise UserError(
            f"query is {spec.query}, expected at most {most}: no query may have the origin of one of the "
            f"{spec.shot} shots"
        )
    tasks = np.arange(first, last, dtype=np.uint64)[:, None]
    classes = _classes_of(index, spec, tasks)
    there = index.rows[classes] >= 0
    keys = np.where(there, hash_keys(spec.seed, tasks[..., None], index.origins[classes], 0, 0), _LAST)
    order = np.lexsort((_item_keys(index, spec.seed, tasks, classes), keys))  # origin after origin
    keys = np.take_along_axis(keys, order, axis=-1)
    begins = np.diff(keys, axis=-1, prepend=~keys[..., :1]) != 0
    place, count = np.arange(keys.shape[-1]), there.sum(axis=-1, keepdims=True)
    turn = place - np.maximum.accumulate(np.where(begins, place, 0), axis=-1)  # of an item in its origin
    origin = begins.cumsum(axis=-1) - 1
    enough = (begins & (count - place >= spec.query)).sum(axis=-1, keepdims=True) - 1
    labelled = origin < np.minimum(spec.shot, enough)
    rounds = (turn * len(place) + origin).astype(np.uint64) << np.uint64(32)  # in the bits that count
    roles = ((labelled, spec.shot), (~labelled & (place < count), spec.query))
    chosen = [_smallest(np.where(role, rounds, _LAST), number) for role, number in roles]
    places = np.take_along_axis(order, np.concatenate(chosen, axis=-1), axis=-1)
    return np.take_along_axis(index.rows[classes], places, axis=-1)


def queries_apart(index: ClassIndex, shot: int) -> int:
    """How many queries a class `sample_apart` can always draw; below 1 if it can draw none.

    Before the last origin of the queries is added they lack one item, and it adds at most the largest
    origin's; the other origins must be enough for the shots.
    """
    sizes = [
        np.unique(origins[there], return_counts=True)[1]
        for origins, there in zip(index.origins, index.rows >= 0, strict=True)
    ]
    return int(min(each.sum() - each.max() for each in sizes)) - shot + 1


def sample_every_class(
    index: ClassIndex, query: int, seed: int, first: int, last: int
) -> Int[np.ndarray, "T classes Q"]:
    """For each task the rows of `query` queries of every class, in the order of the classes."""
    index.check(0, 0, query)
    tasks = np.arange(first, last, dtype=np.uint64)[:, None]
    keys = _item_keys(index, seed, tasks, np.arange(len(index.classes))[None])
    chosen = _smallest(np.where(index.may_query, keys, _LAST), query)
    return np.take_along_axis(index.rows[None], chosen, axis=-1)


def _places_of(
    labels: Int[np.ndarray, "classes others"], classes: Int[np.ndarray, " classes"]
) -> Int[np.ndarray, "classes others"]:
    """Labels as places among `classes`, in their order, without those not there; -1 fills the rest."""
    place = np.full(max(labels.max(initial=-1), classes.max(initial=-1)) + 2, -1, dtype=np.int64)
    place[classes] = np.arange(len(classes))
    found = place[labels]  # -1 is the last place, which is no class
    order = np.argsort(found < 0, axis=1, kind="stable")
    places: np.ndarray = np.take_along_axis(found, order, axis=1)
    return places


def _ranks(groups: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """The place of each element among those of its own group: 0, 1, …"""
    order = np.argsort(groups, kind="stable")
    counts = np.bincount(groups)
    ranks = np.empty(len(groups), dtype=np.int64)
    ranks[order] = np.arange(len(groups)) - (np.cumsum(counts) - counts)[groups[order]]
    return ranks


def _table(groups: Int[np.ndarray, " n"], values: Int[np.ndarray, " n"]) -> Int[np.ndarray, "groups most"]:
    """The values of each group in a row, in their order, and -1 behind them."""
    ranks = _ranks(groups)
    table = np.full((len(np.bincount(groups)), ranks.max(initial=-1) + 1), -1, dtype=np.int64)
    table[groups, ranks] = values
    return table


def _item_keys(
    index: ClassIndex, seed: int, tasks: UInt64[np.ndarray, "T 1"], classes: Int[np.ndarray, "_ N"]
) -> UInt64[np.ndarray, "T N items"]:
    keys = hash_keys(seed, tasks[..., None], classes[..., None] + 1, np.arange(index.rows.shape[1]))
    if index.mixed:  # whose turn it is among the domains of an origin is drawn for each task
        drawn = hash_keys(seed, tasks[..., None], index.origins[classes], 0, 0)
        keys[drawn % index.turns[classes].astype(np.uint64) != index.turn[classes]] = _LAST
    return keys


def _smallest(keys: UInt64[np.ndarray, "*batch n"], count: int) -> Int[np.ndarray, "*batch count"]:
    """The positions of the `count` smallest keys of each row, in the order of the keys."""
    found = np.argpartition(keys, count - 1, axis=-1)[..., :count]
    order = np.take_along_axis(keys, found, axis=-1).argsort(axis=-1)
    return np.take_along_axis(found, order, axis=-1)
