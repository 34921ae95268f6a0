"""Import files of features, as they are distributed, into a table (`fewset.data.features.table`).

A source is an HDF5 or an NPZ file with these arrays:

==================================  ====================================================================
``features`` (rows, dim)            any type of number; also called ``all_feats``
``labels`` (rows)                   the class of each row, integers or text; also ``all_labels``
``count``                           optional: how many of the rows are filled
``class_split`` (classes)           "seen" or "unseen" for each class, in the order of the sorted labels
``base_classes, novel_classes``     instead of ``class_split``: lists of labels; ``base_classes_1`` and
                                    ``novel_classes_1`` belong to the validation setup, ``..._2`` to the
                                    test setup
``role`` (rows)                     optional: "train" or "test"
``class_names`` (classes)           optional: names of the labels 0, 1, ...; also ``label_names``
``weights_digest, images_digest``   optional: the origin of the features, as `fewset embed` writes it
==================================  ====================================================================

Or it is a directory in the layout of the low-shot benchmark of Hariharan & Girshick (2017): ``train.hdf5``
and ``val.hdf5`` with features and labels, and ``label_idx.json`` with the lists of classes.

Without roles, a share of the rows of each class is held out as queries.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int64, Shaped

from fewset.core.errors import UserError
from fewset.core.progress import progress
from fewset.core.randomness import check_seed
from fewset.data.features.table import (
    LAYOUT,
    ROLES,
    FeatureTable,
    open_features,
    random_order,
    write_features,
)
from fewset.data.manifest import Origin, import_command
from fewset.io.array_files import SUFFIXES, ArrayFile, open_arrays
from fewset.io.paths import user_path
from fewset.io.reading import read_json

HELD_OUT = 0.2
_PIECE = 2**21  # values copied at once: 8 MB

_FEATURES = ("features", "all_feats")
_LABELS = ("labels", "all_labels")
_LISTS = {
    f"{kind}_classes{ending}": (unseen, setup)
    for kind, unseen in (("base", False), ("novel", True))
    for setup, ending in enumerate(("", "_1", "_2"))
}
_MADE_FROM = ("weights_digest", "images_digest")
_COLUMNS = ("count", "class_split", "role", "class_names", "label_names", *_MADE_FROM, *_LISTS)
_SPLITS = ("seen", "unseen")

Columns = Mapping[str, np.ndarray]


class _Part(NamedTuple):
    """One file of a source, before its features are read."""

    file: ArrayFile
    key: str
    """The key of the features."""
    dim: int
    labels: Shaped[np.ndarray, " rows"]
    columns: Columns


def import_features(
    source: str | Path,
    name: str | None = None,
    *,
    held_out: float = HELD_OUT,
    seed: int = 0,
    replace: bool = False,
) -> FeatureTable:
    """Copy a source into the table `name`, by default the name of the source without its suffix.

    If the source has no roles, the share `held_out` of each class becomes queries, drawn with `seed`. A table
    of that name is replaced if it came from the same source, and otherwise only with `replace`.
    """
    if not 0 < held_out < 1:
        raise UserError(f"held_out is {held_out}, expected a share between 0 and 1")
    check_seed(seed)
    source = user_path(source).absolute()
    name = name or (source.name if source.is_dir() else source.stem)
    path = LAYOUT.path(name)
    origin = Origin.of(source)
    if not replace:
        LAYOUT.check_source(path, origin)

    with ExitStack() as stack:
        parts = [_part(stack.enter_context(open_arrays(file))) for file in _files(source)]
        columns = _json(source / "label_idx.json") if source.is_dir() else parts[0].columns
        if len({part.dim for part in parts}) > 1:
            raise UserError(f"{source}: the features have dimensions {parts[0].dim} and {parts[1].dim}")
        values, labels = np.unique(np.concatenate([part.labels for part in parts]), return_inverse=True)
        names = _names(values, columns, source)
        unseen, setups = _class_split(values, names, columns, source)
        if source.is_dir():
            roles = np.repeat([0, 1], [len(part.labels) for part in parts])
        elif "role" in columns:
            roles = _indices(columns["role"], ROLES, len(labels), "role", source)
        else:
            roles = query_roles(labels, names, held_out, seed)
        own_share = None if held_out == HELD_OUT else held_out
        write_features(
            path,
            _pieces(parts),
            dim=parts[0].dim,
            labels=labels,
            roles=roles,
            class_names=names,
            unseen=unseen,
            setups=setups,
            source=origin.words,
            source_key=origin.key,
            command=import_command("features", source, name, held_out=own_share, seed=seed),
            made_from={key: str(columns[key][0]) for key in _MADE_FROM if key in columns},
        )
    return open_features(name)


def _files(source: Path) -> list[Path]:
    """The file itself, or those of a directory: training rows first, then queries."""
    if not source.is_dir():
        return [source]
    files = []
    for stem in ("train", "val"):
        found = [file for suffix in SUFFIXES if (file := source / f"{stem}{suffix}").is_file()]
        if len(found) != 1:
            raise UserError(f"{source} has {len(found)} files of features called {stem}, expected one")
        files += found
    return files


def _part(file: ArrayFile) -> _Part:
    key, label_key = (_present(file, keys) for keys in (_FEATURES, _LABELS))
    shape, dtype = file.describe(key)
    if len(shape) != 2 or min(shape) < 1 or dtype.kind not in "fiu":
        raise _unexpected(file, key, shape, dtype, "numbers (rows, dim)")
    labels = file.read(label_key)
    if labels.shape != shape[:1] or labels.dtype.kind not in "iuU":
        expected = f"an integer or a text for each of the {shape[0]} rows of {key!r}"
        raise _unexpected(file, label_key, labels.shape, labels.dtype, expected)
    columns = {column: np.atleast_1d(file.read(column)) for column in _COLUMNS if column in file.keys}
    for column, values in columns.items():
        if values.ndim > 1 or not values.size or values.dtype.kind not in "biufU":
            raise _unexpected(file, column, values.shape, values.dtype, "a list of numbers or text")
    if "count" in columns:
        count = columns["count"][0]
        if columns["count"].dtype.kind not in "iu" or not 0 < count <= shape[0]:
            raise UserError(f"{file.path}: 'count' is {count!s:.80}, expected 1 to {shape[0]}, the rows")
        labels = labels[:count]
        columns |= {"role": columns["role"][:count]} if "role" in columns else {}
    return _Part(file, key, shape[1], labels, columns)


def _unexpected(
    file: ArrayFile, key: str, shape: tuple[int, ...], dtype: np.dtype[Any], expected: str
) -> UserError:
    return UserError(f"{file.path}: {key!r} has shape {shape} and type {dtype}, expected {expected}")


def _present(file: ArrayFile, keys: Sequence[str]) -> str:
    key = next((key for key in keys if key in file.keys), None)
    if key is None:
        found = ", ".join(sorted(file.keys)) or "none"
        raise UserError(f"{file.path} has no array {' or '.join(map(repr, keys))}; it has: {found}")
    return key


def _json(path: Path) -> Columns:
    try:
        lists = read_json(path)
        return {key: np.atleast_1d(lists[key]) for key in ("label_names", *_LISTS) if key in lists}
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"{path} cannot be read ({error}); it must hold the lists base_classes and novel_classes"
        ) from error


def _names(values: Shaped[np.ndarray, " classes"], columns: Columns, source: Path) -> list[str]:
    """The name of each label that occurs."""
    for key in ("class_names", "label_names"):
        if key in columns and values.dtype.kind != "U":
            if values[0] < 0 or values[-1] >= len(columns[key]):
                span = f"the labels go from {values[0]} to {values[-1]}"
                raise UserError(f"{source}: {key!r} has {len(columns[key])} names, but {span}")
            return [str(name) for name in columns[key][values]]
    return [str(value) for value in values]


def _class_split(
    values: Shaped[np.ndarray, " classes"], names: Sequence[str], columns: Columns, source: Path
) -> tuple[Bool[np.ndarray, " classes"], Int64[np.ndarray, " classes"]]:
    """Whether each class is unseen, and its setup."""
    setups = np.zeros(len(values), dtype=np.int64)
    if "class_split" in columns:
        split = _indices(columns["class_split"], _SPLITS, len(values), "class_split", source)
        return split == 1, setups
    lists = [key for key in _LISTS if key in columns]
    if not lists:
        raise UserError(
            f"{source} has neither 'class_split' nor the lists 'base_classes' and 'novel_classes'"
        )
    listed = np.zeros((2, len(values)), dtype=bool)
    for key in lists:
        unseen, setup = _LISTS[key]
        members = np.isin(values, columns[key])
        listed[int(unseen)] |= members
        if setup:
            setups[members] = setup
    for wrong in np.flatnonzero(listed[0] == listed[1]):
        which = "both" if listed[0, wrong] else "neither"
        raise UserError(
            f"{source}: class {names[int(wrong)]!r} is in {which} of the lists of base and novel classes"
        )
    return listed[1], setups


def _indices(
    column: np.ndarray, words: tuple[str, str], length: int, key: str, source: Path
) -> Int64[np.ndarray, " n"]:
    """0 or 1 for each value of a column: its index in `words`."""
    if column.shape != (length,):
        raise UserError(f"{source}: {key!r} has shape {column.shape}, expected {length} values")
    unknown = column[~np.isin(column, words)]
    if len(unknown):
        raise UserError(f"{source}: {key!r} holds {str(unknown[0])!r}, expected {' or '.join(words)}")
    indices: np.ndarray = (column == words[1]).astype(np.int64)
    return indices


def query_roles(
    labels: Int64[np.ndarray, " rows"], names: Sequence[str], share: float = HELD_OUT, seed: int = 0
) -> Int64[np.ndarray, " rows"]:
    """The role of each row: a random share of each class becomes queries, at least one row, never all."""
    counts = np.bincount(labels)
    if counts.min() < 2:
        raise UserError(
            f"class {names[int(counts.argmin())]!r} has one row: none can be held out; give the array 'role'"
        )
    queries = np.clip(np.rint(share * counts), 1, counts - 1)
    order, place = random_order(labels, seed, np.arange(len(labels)))
    roles = np.zeros(len(labels), dtype=np.int64)
    roles[order[place < queries[labels[order]]]] = 1
    return roles


def _pieces(parts: Sequence[_Part]) -> Iterator[Float32[np.ndarray, "n dim"]]:
    """All rows in order, as float32; a number too large for that becomes infinite, and is rejected."""
    rows = sum(len(part.labels) for part in parts)
    with progress("copying features", rows) as advance:
        for part in parts:
            for raw in part.file.pieces(part.key, len(part.labels), max(1, _PIECE // part.dim)):
                with np.errstate(over="ignore"):
                    piece = raw.astype(np.float32)
                yield piece
                advance(len(piece))
