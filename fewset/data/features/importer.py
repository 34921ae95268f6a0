"""Files of features, as they are distributed, become a table (`fewset.data.features.table`).

A source is an HDF5 or an NPZ file with these arrays:

==================================  ====================================================================
``features`` (rows, dim)            numbers; also called ``all_feats`` or ``all_features``
``labels`` (rows)                   the class of each row, whole numbers or text; also ``all_labels``
``count``                           optional: how many of the rows are filled
``split`` (rows)                    "seen" or "unseen" (also "base" or "novel", 0 or 1), one for each class
``class_split`` (classes)           or, instead: one value a class, in the order of the sorted labels
``base_classes, novel_classes``     or, instead: lists of labels; ``base_classes_1``, ``novel_classes_1`` are
                                    those of the validation setup, ``…_2`` those of the test setup
``role`` (rows)                     optional: "train" or "test" (also "support" or "query", 0 or 1)
``class_names`` (classes)           optional: names of the labels 0, 1, …; also ``label_names``
``weights_digest, images_digest``   optional: what the features were made from, as `fewset embed` says it
==================================  ====================================================================

Or it is a directory in the layout of the low-shot benchmark of Hariharan & Girshick (2017): ``train.hdf5``
and ``val.hdf5`` with features and labels, and ``label_idx.json`` with the lists of classes.

Where no role is given, a share of the rows of each class is held out as queries.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int64, Shaped

from fewset.core.errors import UserError
from fewset.core.progress import progress
from fewset.core.randomness import check_seed
from fewset.data.features.array_files import SUFFIXES, ArrayFile, open_arrays
from fewset.data.features.table import (
    LAYOUT,
    FeatureTable,
    open_features,
    random_order,
    table_path,
    write_features,
)
from fewset.data.manifest import Origin, import_command
from fewset.io.paths import user_path
from fewset.io.reading import read_json

HELD_OUT = 0.2
_PIECE_NUMBERS = 2**21  # numbers copied at once: 8 MB

_FEATURES = ("features", "all_feats", "all_features")
_LABELS = ("labels", "all_labels")
_LISTS = {
    f"{kind}_classes{ending}": (unseen, setup)
    for kind, unseen in (("base", False), ("novel", True))
    for setup, ending in enumerate(("", "_1", "_2"))
}
_MADE_FROM = ("weights_digest", "images_digest")
_COLUMNS = ("count", "split", "class_split", "role", "class_names", "label_names", *_MADE_FROM, *_LISTS)
_SPLIT_WORDS = {"seen": 0, "base": 0, "0": 0, "unseen": 1, "novel": 1, "1": 1}
_ROLE_WORDS = {"train": 0, "support": 0, "0": 0, "test": 1, "query": 1, "1": 1}

Columns = Mapping[str, np.ndarray]


class _Part(NamedTuple):
    """One file of a source, the features still unread."""

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
    """Copy a source into the table `name`, by default the source's own name without its ending.

    Where the source gives no roles, `held_out` is the share of each class that becomes queries, drawn with
    `seed`. A table of that name is made anew when it came from the same source; one from elsewhere is
    replaced only with `replace`.
    """
    if not 0 < held_out < 1:
        raise UserError(f"held_out is {held_out}, expected a share between 0 and 1")
    check_seed(seed)
    source = user_path(source).absolute()
    name = name or (source.name if source.is_dir() else source.stem)
    path = table_path(name)
    origin = Origin.of(source)
    if not replace:
        LAYOUT.refuse_other_source(path, origin)

    with ExitStack() as stack:
        parts = [_part(stack.enter_context(open_arrays(file))) for file in _files(source)]
        columns = _json(source / "label_idx.json") if source.is_dir() else parts[0].columns
        if len({part.dim for part in parts}) > 1:
            raise UserError(
                f"{source}: the features of {' and '.join(part.file.path.name for part in parts)} have "
                f"{' and '.join(str(part.dim) for part in parts)} numbers a row, expected the same of both"
            )
        values, labels = np.unique(np.concatenate([part.labels for part in parts]), return_inverse=True)
        names = _names(values, columns, source)
        unseen, setups = _class_split(values, labels, names, columns, source)
        if source.is_dir():
            roles = np.repeat([0, 1], [len(part.labels) for part in parts])
        elif "role" in columns:
            roles = _words(columns["role"], _ROLE_WORDS, len(labels), "role", source)
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
    return open_features(path)


def _files(source: Path) -> list[Path]:
    """The file itself, or those of a directory: training rows first, then queries."""
    if not source.is_dir():
        return [source]
    found = []
    for stems in (("train",), ("val", "test")):
        files = [source / f"{stem}{suffix}" for stem in stems for suffix in SUFFIXES]
        there = [file for file in files if file.is_file()]
        if len(there) != 1:
            raise UserError(
                f"{source} has {len(there)} files of features called {' or '.join(stems)}, expected one "
                f"(such as {stems[0]}.hdf5)"
            )
        found += there
    return found


def _part(file: ArrayFile) -> _Part:
    key, label_key = (_present(file, keys) for keys in (_FEATURES, _LABELS))
    shape, dtype = file.describe(key)
    if len(shape) != 2 or min(shape) < 1 or dtype.kind not in "fiu":
        raise UserError(
            f"{file.path}: {key!r} is of shape {shape} and type {dtype}, expected numbers (rows, dim)"
        )
    rows = shape[0]
    label_shape, label_type = file.describe(label_key)
    if label_shape != (rows,):
        raise UserError(
            f"{file.path}: {label_key!r} is of shape {label_shape}, expected one label for each of the "
            f"{rows} rows of {key!r}"
        )
    labels = file.read(label_key)
    if labels.dtype.kind not in "iuU":
        raise UserError(f"{file.path}: {label_key!r} is of type {label_type}, expected whole numbers or text")
    columns = {column: np.atleast_1d(file.read(column)) for column in _COLUMNS if column in file.keys}
    for column, values in columns.items():
        if values.ndim > 1:
            raise UserError(f"{file.path}: {column!r} is of shape {values.shape}, expected a list")
        if values.dtype.kind not in "biufU":
            raise UserError(f"{file.path}: {column!r} is of type {values.dtype}, expected numbers or text")
    if "count" in columns:
        counts = columns["count"]
        if counts.dtype.kind not in "iu" or not counts.size or not 0 < counts[0] <= rows:
            found = f"{counts.tolist()[:1]} of type {counts.dtype}"
            raise UserError(f"{file.path}: 'count' is {found:.80}, expected 1 to {rows}, the rows of {key!r}")
        filled = int(counts[0])
        labels = labels[:filled]
        columns |= {column: columns[column][:filled] for column in ("split", "role") if column in columns}
    return _Part(file, key, shape[1], labels, columns)


def _present(file: ArrayFile, keys: Sequence[str]) -> str:
    for key in keys:
        if key in file.keys:
            return key
    found = ", ".join(sorted(file.keys)) or "none"
    raise UserError(f"{file.path} has no array {keys[0]!r} (or {', '.join(keys[1:])}); it has: {found}")


def _json(path: Path) -> Columns:
    try:
        table = read_json(path)
        return {key: np.array(table[key]) for key in _COLUMNS if key in table}
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"{path} cannot be read ({error}); it must hold the lists base_classes and novel_classes"
        ) from error


def _names(values: Shaped[np.ndarray, " classes"], columns: Columns, source: Path) -> list[str]:
    """A name for each label that occurs."""
    for key in ("class_names", "label_names"):
        if key in columns and values.dtype.kind != "U":
            if values[0] < 0 or values[-1] >= len(columns[key]):
                raise UserError(
                    f"{source}: {key!r} has {len(columns[key])} names, but the labels go from {values[0]} to "
                    f"{values[-1]}"
                )
            return [str(name) for name in columns[key][values]]
    return [str(value) for value in values]


def _class_split(
    values: Shaped[np.ndarray, " classes"],
    labels: Int64[np.ndarray, " rows"],
    names: Sequence[str],
    columns: Columns,
    source: Path,
) -> tuple[Bool[np.ndarray, " classes"], Int64[np.ndarray, " classes"]]:
    """Whether each class is unseen, and its setup."""
    setups = np.zeros(len(values), dtype=np.int64)
    if "split" in columns:
        rows = _words(columns["split"], _SPLIT_WORDS, len(labels), "split", source)
        share = np.bincount(labels, weights=rows) / np.bincount(labels)
        for mixed in np.flatnonzero((share > 0) & (share < 1)):
            raise UserError(f"{source}: 'split' gives class {names[int(mixed)]!r} as seen and as unseen")
        return share == 1, setups
    if "class_split" in columns:
        return _words(columns["class_split"], _SPLIT_WORDS, len(values), "class_split", source) == 1, setups
    lists = [key for key in _LISTS if key in columns]
    if not lists:
        raise UserError(
            f"{source} does not say which classes are unseen: it has none of 'split', 'class_split' and "
            "'base_classes' with 'novel_classes'"
        )
    named = np.zeros((2, len(values)), dtype=bool)
    for key in lists:
        unseen, setup = _LISTS[key]
        members = np.isin(values, columns[key])
        named[int(unseen)] |= members
        if setup:
            setups[members] = setup
    for wrong in np.flatnonzero(named[0] == named[1]):
        what = "both" if named[0, wrong] else "neither"
        raise UserError(
            f"{source}: class {names[int(wrong)]!r} is in {what} of the lists of base and novel classes"
        )
    return named[1], setups


def _words(
    column: np.ndarray, words: Mapping[str, int], length: int, key: str, source: Path
) -> Int64[np.ndarray, " n"]:
    """A column of words, or of 0 and 1, as numbers 0 and 1."""
    if column.shape != (length,):
        raise UserError(f"{source}: {key!r} is of shape {column.shape}, expected {length} values")
    if column.dtype.kind == "b":
        column = column.astype(np.int64)
    found, inverse = np.unique(column, return_inverse=True)
    for value in found:
        if str(value) not in words:
            raise UserError(f"{source}: {key!r} holds {str(value)!r}, expected one of {', '.join(words)}")
    return np.array([words[str(value)] for value in found])[inverse]


def query_roles(
    labels: Int64[np.ndarray, " rows"], names: Sequence[str], share: float = HELD_OUT, seed: int = 0
) -> Int64[np.ndarray, " rows"]:
    """The role of each row: of each class a share at random become queries, at least one, never all."""
    counts = np.bincount(labels)
    if counts.min() < 2:
        raise UserError(
            f"class {names[int(counts.argmin())]!r} has one row, so none can be held out as a query; give "
            "the array 'role', or leave the class out"
        )
    queries = np.clip(np.rint(share * counts), 1, counts - 1)
    order, place = random_order(labels, seed, np.arange(len(labels)))
    roles = np.zeros(len(labels), dtype=np.int64)
    roles[order[place < queries[labels[order]]]] = 1
    return roles


def _pieces(parts: Sequence[_Part]) -> Iterator[Float32[np.ndarray, "n dim"]]:
    """All rows in order, as float32; a number that is too large for that becomes infinite, and is refused."""
    rows = sum(len(part.labels) for part in parts)
    with progress("copying features", rows) as advance:
        for part in parts:
            for raw in part.file.pieces(part.key, len(part.labels), max(1, _PIECE_NUMBERS // part.dim)):
                with np.errstate(over="ignore"):
                    piece = raw.astype(np.float32)
                yield piece
                advance(len(piece))
