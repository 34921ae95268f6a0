"""A table of features on disk, for the large-scale low-shot setting: a directory like that of an image set.

=================  ============================================================================
``features.npy``   float32 (rows, dim), read a few rows at a time
``rows.npy``       one record a row: label and role
``manifest.json``  class names, split and setup of each class, counts, source, digest, format version
=================  ============================================================================

The benchmark of Hariharan & Girshick (2017) has 1,300,000 rows of dimension 2,048: 10.6 GB. Therefore a table
is written row after row (`write_features`), and only the requested rows are in memory (`FeatureTable.read`).
They are read, not mapped, because the pages of a memory map that is read once stay with the process.

Tables are in `home() / "features"`; `fewset.data.features.importer` makes them from HDF5 and NPZ files.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float32, Int, Int64

from fewset.core.errors import UserError, refuse_unknown
from fewset.core.randomness import mix
from fewset.data.manifest import Layout, ManifestFields, SealedFile
from fewset.io.arrays import check_numbers, read_array, read_header
from fewset.io.files import replacing_directory
from fewset.io.reading import open_file
from fewset.tasks.items import Items

ROLES = ("train", "test")
"""Training rows, from which the shots are drawn, and queries."""
SETUPS = ("", "validation", "test")
"""The benchmark has half of the classes to choose options, and half for published results; "" is neither."""

Split = Literal["seen", "unseen"]
Setup = Literal["validation", "test"]
Role = Literal["train", "test"]


@dataclass(frozen=True)
class _Counts:
    classes: int
    train: int
    test: int


@dataclass(frozen=True, kw_only=True)
class _Fields(ManifestFields):
    made_from: dict[str, str] = field(default_factory=dict)
    rows: int
    dim: int
    counts: dict[Split, _Counts]
    class_names: tuple[str, ...]
    unseen: tuple[bool, ...]
    setups: tuple[Literal[0, 1, 2], ...]
    files: dict[Literal["features.npy", "rows.npy"], SealedFile]


LAYOUT = Layout(
    "table of features",
    folder="features",
    format=1,
    content=("format", "rows", "dim", "class_names", "unseen", "setups", "files"),
    fields=_Fields,
    kind="features",
)
table_path, list_features = LAYOUT.path, LAYOUT.names
_CHUNK = 2**21  # values read at once: 8 MB, which stays in the cache


@dataclass(frozen=True, eq=False, repr=False)
class FeatureTable:
    """An opened table. Its arrays must not be written to; the features themselves stay on the disk."""

    name: str
    path: Path
    dim: int
    labels: Int64[np.ndarray, "rows"]
    """The class of each row, an index into `class_names`."""
    roles: Int64[np.ndarray, "rows"]
    """The role of each row, an index into `ROLES`."""
    class_names: tuple[str, ...]
    unseen: Bool[np.ndarray, "classes"]
    """Whether a class is unseen (novel, with a few shots) or seen (base, with all its training rows)."""
    setups: Int64[np.ndarray, "classes"]
    """The half of the benchmark that a class belongs to, an index into `SETUPS`."""
    digest: str
    manifest: dict[str, Any]
    offset: int
    """The position of the first row in ``features.npy``."""

    def __repr__(self) -> str:
        unseen = int(self.unseen.sum())
        return (
            f"FeatureTable({self.name!r}: {len(self.labels)} rows of dimension {self.dim}, "
            f"{len(self.unseen) - unseen} seen and {unseen} unseen classes)"
        )

    def classes(self, split: Split, setup: Setup | None = None) -> Int64[np.ndarray, " chosen"]:
        """The seen or unseen classes, all of them or those of one setup of the benchmark."""
        refuse_unknown("class split", split, ("seen", "unseen"))
        chosen, of_setup = self.unseen == (split == "unseen"), ""
        if setup is not None:
            refuse_unknown("setup", setup, SETUPS[1:])
            chosen &= self.setups == SETUPS.index(setup)
            of_setup = f" of the {setup} setup; leave the setup out to take all {split} classes"
        if not chosen.any():
            raise UserError(f"the table {self.name!r} has no {split} classes{of_setup}")
        return np.flatnonzero(chosen)

    def select(self, split: str, domain: str | None = None) -> Items:
        """The rows of the seen classes ("train"), of the unseen ones ("test"), or of "all" classes.

        Where the unseen classes have setups, those of the validation setup are "val", the others "test".
        """
        refuse_unknown(f"split of {self.name!r}:", split, ("train", "val", "test", "all"))
        if domain is not None:
            raise UserError(f"the table {self.name!r} has no domains; leave --domain out")
        validation = self.unseen & (self.setups == SETUPS.index("validation"))
        chosen = {
            "train": ~self.unseen,
            "val": validation,
            "test": self.unseen & ~validation,
            "all": np.ones_like(self.unseen),
        }[split]
        rows = np.flatnonzero(chosen[self.labels])
        if not len(rows):
            raise UserError(
                f"the table {self.name!r} has no rows for the split {split!r}; take another split"
            )
        return Items(rows, self.labels[rows], self.class_names)

    def rows(self, classes: Int[np.ndarray, " chosen"], role: Role) -> Int64[np.ndarray, " selected"]:
        """The rows of these classes in a role, in the order of the file."""
        return np.flatnonzero(np.isin(self.labels, classes) & (self.roles == ROLES.index(role)))

    def places(
        self, classes: Int[np.ndarray, " chosen"], rows: Int[np.ndarray, " n"]
    ) -> Int64[np.ndarray, " n"]:
        """The index of each row's class in `classes`."""
        places = np.full(len(self.class_names), -1)
        places[classes] = np.arange(len(classes))
        found: np.ndarray = places[self.labels[rows]]
        return found

    def read(self, rows: Int[np.ndarray, " n"]) -> Float32[np.ndarray, "n dim"]:
        """The features of these rows, one read for each run of consecutive rows."""
        result = np.empty((len(rows), self.dim), dtype="<f4")
        if not len(rows):
            return result
        if rows.min() < 0 or rows.max() >= len(self.labels):
            raise IndexError(f"rows {rows.min()} to {rows.max()} of a table of {len(self.labels)}")
        problem = ""
        with (self.path / "features.npy").open("rb") as file:
            for first, last in pairwise([0, *np.flatnonzero(np.diff(rows) != 1) + 1, len(rows)]):
                file.seek(self.offset + int(rows[first]) * self.dim * 4)
                part = result[first:last].data.cast("B")
                if file.readinto(part) < len(part):
                    problem = "features.npy was cut short while it was in use"
        wrong = _not_finite(result)
        if wrong is not None:
            problem = problem or f"row {rows[wrong]} of features.npy has NaN or infinite values"
        if problem:
            raise LAYOUT.damaged(self.path, problem, self.manifest)
        return result

    def chunks(
        self, rows: Int[np.ndarray, " n"], chunk: int | None = None
    ) -> Iterator[tuple[Int[np.ndarray, " m"], Float32[np.ndarray, "m dim"]]]:
        """These rows with their features, at most `chunk` at a time (by default 8 MB)."""
        chunk = chunk or max(1, _CHUNK // self.dim)
        for first in range(0, len(rows), chunk):
            part = rows[first : first + chunk]
            yield part, self.read(part)

    def draw(self, classes: Int[np.ndarray, " N"], shot: int, seed: int) -> Int64[np.ndarray, "N shot"]:
        """`shot` training rows of each class: a pure function of the table and the seed.

        Each row has a random place in its class. So with one seed, one shot is the first of five shots, and
        the rows of a class do not depend on the other classes.
        """
        order, place = random_order(self.labels, seed, self.rows(classes, "train"))
        counts = np.bincount(self.labels[order], minlength=len(self.class_names))[classes]
        if counts.min() < shot:
            worst = classes[counts.argmin()]
            raise UserError(
                f"class {self.class_names[worst]!r} of {self.name!r} has {counts.min()} training rows, "
                f"expected {shot} or more; lower the shot"
            )
        drawn = order[place < shot].reshape(-1, shot)  # sorted by class
        return drawn[np.argsort(np.argsort(classes))]

    def verify(self) -> None:
        """Read every byte and compare with the digest; opening trusts large files with an unchanged date."""
        LAYOUT.verify(self.path, self.manifest)


def random_order(
    labels: Int[np.ndarray, "all"], seed: int, rows: Int[np.ndarray, " n"]
) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " n"]]:
    """The rows sorted by class, in random order within each class, and the place (0, 1, ...) of each there.

    The order of two rows depends on the seed alone, not on the other rows.
    """
    keys = np.random.Generator(np.random.PCG64(mix(seed))).random(len(labels))[rows]
    order = rows[np.lexsort((keys, labels[rows]))]
    _, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    return order, np.arange(len(order)) - np.repeat(starts, counts)


def write_features(
    path: Path,
    pieces: Iterable[Float32[np.ndarray, "_ dim"]],
    *,
    dim: int,
    labels: Int[np.ndarray, " rows"],
    roles: Int[np.ndarray, " rows"],
    class_names: Sequence[str],
    unseen: Bool[np.ndarray, " classes"],
    setups: Int[np.ndarray, " classes"],
    source: str,
    source_key: str = "",
    command: str,
    made_from: Mapping[str, str] | None = None,
) -> None:
    """Write a table whose rows are `pieces` in order. It appears at `path` when it is complete.

    `made_from` has the digests of the weights and images that made the features, if they are known.
    """
    rows = np.empty(len(labels), dtype=[("label", "<i8"), ("role", "<i8")])
    rows["label"], rows["role"] = labels, roles
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(labels), dim)}
    with replacing_directory(path) as directory:
        with (directory / "features.npy").open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            written = 0
            for piece in pieces:
                wrong = _not_finite(piece)
                if wrong is not None:
                    raise UserError(
                        f"the features of row {written + wrong} from {source} are NaN, infinite or too large "
                        "for float32; make them again, or leave the row out"
                    )
                file.write(np.ascontiguousarray(piece, dtype="<f4").data)
                written += len(piece)
        if written != len(labels):
            raise UserError(f"{source} gave {written} rows of features, expected {len(labels)}")
        np.save(directory / "rows.npy", rows)

        manifest = {
            "name": path.name,
            "source": source,
            "source_key": source_key,
            "command": command,
            "made_from": dict(made_from or {}),
            "rows": len(rows),
            "dim": dim,
            "counts": {
                split: {
                    "classes": int((unseen == flag).sum()),
                    "train": int(((unseen[labels] == flag) & (roles == 0)).sum()),
                    "test": int(((unseen[labels] == flag) & (roles == 1)).sum()),
                }
                for split, flag in (("seen", False), ("unseen", True))
            },
            "class_names": list(class_names),
            "unseen": unseen.tolist(),
            "setups": setups.tolist(),
        }
        LAYOUT.seal(directory, ("features.npy", "rows.npy"), manifest)


def open_features(name: str | Path) -> FeatureTable:
    """Open a table by its name, or by the path of its directory (anything with a path separator)."""
    return LAYOUT.open(LAYOUT.find(name), _build)


def _build(path: Path, manifest: dict[str, Any]) -> FeatureTable:
    with open_file(path / "rows.npy") as file:
        rows = read_array(file)
    offset = _check(path, manifest, rows)
    return FeatureTable(
        name=path.resolve().name,
        path=path,
        dim=manifest["dim"],
        labels=np.ascontiguousarray(rows["label"]),
        roles=np.ascontiguousarray(rows["role"]),
        class_names=tuple(manifest["class_names"]),
        unseen=np.array(manifest["unseen"], dtype=bool),
        setups=np.array(manifest["setups"], dtype=np.int64),
        digest=manifest["digest"],
        manifest=manifest,
        offset=offset,
    )


def _check(path: Path, manifest: dict[str, Any], rows: np.ndarray) -> int:
    """Check that the arrays fit the manifest and each other; returns the position of the first row."""
    classes, dim = len(manifest["class_names"]), manifest["dim"]
    with open_file(path / "features.npy") as file:
        shape, by_column, dtype = read_header(file)
        offset = file.tell()
        length = os.fstat(file.fileno()).st_size - offset
    expected = (len(rows), dim)
    if (shape, by_column, dtype) != (expected, False, np.dtype(np.float32)) or length != 4 * len(rows) * dim:
        raise ValueError(f"features of shape {shape} and type {dtype}, expected {expected} and float32")
    for name, limit in (("label", classes), ("role", len(ROLES))):
        check_numbers(rows[name], limit, name)
    if not len(manifest["unseen"]) == len(manifest["setups"]) == classes:
        raise ValueError(f"{classes} classes, but another number of splits or setups")
    return offset


def _not_finite(features: Float32[np.ndarray, "n dim"]) -> int | None:
    """The first row with NaN or an infinite value, if there is one."""
    finite = np.isfinite(features).all(axis=1)
    return None if finite.all() else int(finite.argmin())
