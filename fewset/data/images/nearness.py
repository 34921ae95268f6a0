"""Which classes of a set are near each other, for tasks of related classes.

Nearness never comes from a model that is scored on it. It comes from groups of classes (a hierarchy), from
the class means of a frozen encoder, or from both. With both, the classes of the same group come first, in
the order of their means, and all others follow. The file `nearness.json` beside the set holds it, with the
digest of that set.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fewset.core.errors import UserError
from fewset.io.files import write_text
from fewset.io.reading import read_record

FILE = "nearness.json"
_FORMAT = 1


@dataclass(frozen=True)
class Nearness:
    """For each class the indices of the others, nearest first; unrelated classes are missing."""

    set_digest: str
    source: str
    """A description of the groups or the encoder."""
    nearest: tuple[tuple[int, ...], ...]
    format: int = _FORMAT

    @property
    def table(self) -> Int[np.ndarray, "classes others"]:
        """One row a class, padded with -1."""
        table = np.full((len(self.nearest), max(map(len, self.nearest), default=0)), -1, dtype=np.int64)
        for row, others in zip(table, self.nearest, strict=True):
            row[: len(others)] = others
        return table

    @property
    def digest(self) -> str:
        """Identifies this nearness in results."""
        return hashlib.sha256(json.dumps([self.set_digest, self.nearest]).encode()).hexdigest()


def nearest_classes(
    groups: list[str] | None, means: Float[np.ndarray, "classes D"] | None
) -> tuple[tuple[int, ...], ...]:
    """The others of each class, nearest first: those of its group, then, if there are means, all others.

    Means are compared by the cosine of their differences from the mean of all classes. Without means, classes
    of one group are in the order of their indices, and classes of other groups are not related. At least one
    of the two arguments is given.
    """
    count = len(means if groups is None else groups)  # type: ignore[arg-type]
    distance = np.zeros((count, count))
    if means is not None:
        directions = _unit(_unit(means) - _unit(means).mean(axis=0))
        distance = 1 - directions @ directions.T
    names = np.asarray([""] * count if groups is None else groups)
    other = names[:, None] != names[None]
    related = np.full((count, count), True) if means is not None else ~other
    np.fill_diagonal(related, False)
    orders = [np.lexsort((distance[label], other[label])) for label in range(count)]
    return tuple(tuple(order[related[label, order]].tolist()) for label, order in enumerate(orders))


def _unit(rows: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n D"]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: np.ndarray = rows / np.maximum(lengths, np.finfo(np.float64).tiny)
    return unit


def groups_by_name(class_names: tuple[str, ...]) -> list[str]:
    """The last word of each name, which on CUB is the kind of bird.

    >>> groups_by_name(("001.Black_footed_Albatross", "oak tree"))
    ['Albatross', 'tree']
    """
    return [name.replace("_", " ").split()[-1] for name in class_names]


def write_nearness(nearness: Nearness, directory: Path) -> None:
    """Write `nearness.json` in the directory of a set."""
    write_text(directory / FILE, json.dumps(vars(nearness)) + "\n")


def read_nearness(directory: Path, manifest: dict[str, Any]) -> Nearness | None:
    """The nearness in the directory of a set, or None."""
    file = directory / FILE

    def broken(what: str) -> UserError:
        return UserError(f"{file} {what}; make it again with `fewset data relate {directory.name}`")

    if not file.exists():
        return None
    found = read_record(Nearness, file, "nearness of classes", _FORMAT, broken)
    classes = len(manifest["class_names"])
    if found.set_digest != manifest["digest"] or len(found.nearest) != classes:
        raise broken("was made for another set")
    if any(not 0 <= other < classes for others in found.nearest for other in others):
        raise broken("names classes that the set does not have")
    return found
