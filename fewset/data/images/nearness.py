"""Which classes of a set are near each other: what tasks of related classes are drawn by.

Nearness never comes from a model that is scored on it. It comes from groups of classes (a hierarchy), from
the class means of a frozen encoder, or from both: then the classes of a class's own group are the nearest, in
the order of their means, and all others come behind them. It lies beside the set, in `nearness.json`, with
the digest of the set that it was made for.
"""

import csv
import hashlib
import io
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
    """For each class the others, by their numbers, nearest first; unrelated classes are missing."""

    set_digest: str
    source: str
    """What it comes from, in words."""
    nearest: tuple[tuple[int, ...], ...]
    format: int = _FORMAT

    @property
    def table(self) -> Int[np.ndarray, "classes others"]:
        """With -1 where a class has fewer others than another."""
        table = np.full((len(self.nearest), max(map(len, self.nearest), default=0)), -1, dtype=np.int64)
        for row, others in zip(table, self.nearest, strict=True):
            row[: len(others)] = others
        return table

    @property
    def digest(self) -> str:
        """Tells this nearness from any other."""
        return hashlib.sha256(json.dumps([self.set_digest, self.nearest]).encode()).hexdigest()


def nearest_classes(
    groups: list[str] | None, means: Float[np.ndarray, "classes D"] | None
) -> tuple[tuple[int, ...], ...]:
    """The others of each class, nearest first: those of its group, then, where there are means, all others.

    Means are compared by the cosine of their differences from the mean of all classes. Without means, classes
    of one group are in the order of their numbers, and the others are not related.
    """
    assert groups is not None or means is not None
    count = len(groups) if groups is not None else len(means)  # type: ignore[arg-type]
    distance = np.zeros((count, count))
    if means is not None:
        directions = _unit(_unit(means) - _unit(means).mean(axis=0))
        distance = 1 - directions @ directions.T
    names = np.asarray(groups if groups is not None else [""] * count)
    other = names[:, None] != names[None]
    nearest = []
    for number in range(count):
        order = np.lexsort((distance[number], other[number])).tolist()
        related = [one for one in order if one != number and (means is not None or not other[number, one])]
        nearest.append(tuple(related))
    return tuple(nearest)


def _unit(rows: Float[np.ndarray, "n D"]) -> Float[np.ndarray, "n D"]:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: np.ndarray = rows / np.maximum(lengths, np.finfo(np.float64).tiny)
    return unit


def groups_by_name(class_names: tuple[str, ...]) -> list[str]:
    """The last word of each name, as in CUB: "001.Black_footed_Albatross" is an albatross.

    >>> groups_by_name(("001.Black_footed_Albatross", "oak tree"))
    ['Albatross', 'tree']
    """
    return [name.replace("_", " ").split()[-1] for name in class_names]


def groups_in_csv(path: Path, class_names: tuple[str, ...]) -> list[str]:
    """The group of each class from a table with the columns `class` and `group`."""
    try:
        rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"))))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} cannot be read as a CSV table ({error})") from error
    if not rows or not {"class", "group"} <= rows[0].keys():
        raise UserError(f"{path} has no columns `class` and `group` in its first line; add them")
    groups = {row["class"]: row["group"] or "" for row in rows}
    for name in class_names:
        if not groups.get(name):
            raise UserError(f"{path} has no group for the class {name!r}; add a line for it")
    return [groups[name] for name in class_names]


def write_nearness(nearness: Nearness, directory: Path) -> None:
    """Write it beside a set."""
    write_text(directory / FILE, json.dumps(vars(nearness)) + "\n")


def read_nearness(directory: Path, manifest: dict[str, Any]) -> Nearness | None:
    """What lies beside a set; None where nothing does."""
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
