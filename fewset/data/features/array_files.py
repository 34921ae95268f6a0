"""Arrays in HDF5 and NPZ files, read and written in pieces: such a file may be larger than the memory."""

import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from jaxtyping import Float32

from fewset.core.errors import UserError
from fewset.data.features.hdf5_heaps import check_heaps
from fewset.io.arrays import array_in, check_unpacked, read_header
from fewset.io.files import replacing
from fewset.io.zips import open_member, open_zip

_HDF5_SUFFIXES = (".h5", ".hdf5", ".hdf")
SUFFIXES = (*_HDF5_SUFFIXES, ".npz")
_LARGEST_COLUMN = 2**28
_LARGEST_CHUNK = 2**26
_PACKED, _SMALL = 1100, 2**20  # no compression is better than about 1,000 to 1; nor is a small array a danger
_DAMAGE = (OSError, EOFError, ValueError, TypeError, KeyError, RuntimeError, MemoryError)


class _Hdf5:
    """An HDF5 file."""

    def __init__(self, path: Path, file: h5py.File) -> None:
        self.path, self.file = path, file
        with _reading(path, "the file"):
            self.keys = frozenset(key for key in file if self._is_inside(key))

    def _is_inside(self, key: str) -> bool:
        """Whether there is an array of that name in this very file: links could bring in any local file."""
        if not isinstance(self.file.get(key, getlink=True), h5py.HardLink):
            return False
        dataset = self.file.get(key)
        return isinstance(dataset, h5py.Dataset) and not dataset.is_virtual and not dataset.external

    def describe(self, key: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and type of an array; nothing of it is read."""
        with _reading(self.path, repr(key)):
            dataset = self.file[key]
            stored = dataset.id.get_storage_size()
            if dataset.nbytes > _PACKED * stored + _SMALL:
                raise ValueError(f"it claims {dataset.nbytes:,} bytes, the file has {stored:,} of them")
            check_unpacked(dataset.nbytes, self.path.stat().st_size)
            piece = prod(dataset.chunks or ()) * dataset.dtype.itemsize  # which is read as a whole
            if dataset.chunks and piece > max(2 * dataset.nbytes, _LARGEST_CHUNK):
                raise ValueError(f"it has {dataset.nbytes:,} bytes in pieces of {piece:,}")
            if h5py.check_enum_dtype(dataset.dtype) is not None:
                raise TypeError("its values are names of an enumeration; write them as text or as numbers")
            return dataset.shape or (), dataset.dtype

    def read(self, key: str) -> np.ndarray:
        """A whole array, for the short columns; text comes as strings."""
        self.describe(key)
        with _reading(self.path, repr(key)):
            dataset = self.file[key]
            if dataset.nbytes > _LARGEST_COLUMN:
                raise ValueError(
                    f"it claims {dataset.nbytes} bytes, more than the limit of {_LARGEST_COLUMN}"
                )
            if dataset.dtype.kind == "O":
                check_heaps(self.path)
            if h5py.check_string_dtype(dataset.dtype) is not None:
                return np.asarray(dataset.asstr()[()], dtype=str)
            if dataset.dtype.kind == "O":
                raise TypeError("its values are lists or references")
            return np.asarray(dataset[()])

    def pieces(self, key: str, rows: int, chunk: int) -> Iterator[np.ndarray]:
        """The first `rows` rows of an array in order, at most `chunk` of them at a time."""
        for first in range(0, rows, chunk):
            with _reading(self.path, repr(key)):
                piece = self.file[key][first : min(first + chunk, rows)]
            yield piece


class _Npz:
    """The same of a zip file of .npy files. A member is decompressed as a stream, never as a whole."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path, self.archive = path, archive
        self.keys = frozenset(
            name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")
        )

    def describe(self, key: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        with _reading(self.path, repr(key)), open_member(self.archive, f"{key}.npy") as member:
            shape, _, dtype = read_header(member)
            return shape, dtype

    def read(self, key: str) -> np.ndarray:
        with _reading(self.path, repr(key)):
            array = array_in(self.archive, key, _LARGEST_COLUMN)
            return array.astype(str) if array.dtype.kind == "S" else array

    def pieces(self, key: str, rows: int, chunk: int) -> Iterator[np.ndarray]:
        with _reading(self.path, repr(key)), open_member(self.archive, f"{key}.npy") as member:
            shape, by_column, dtype = read_header(member)
            if by_column:
                raise UserError(
                    f"{self.path}: {key!r} is stored column by column; save numpy.ascontiguousarray of it"
                )
            width = dtype.itemsize * prod(shape[1:])
            for first in range(0, rows, chunk):
                count = min(chunk, rows - first)
                data = member.read(count * width)
                if len(data) < count * width:
                    raise EOFError(f"it ends before row {first + count}")
                yield np.frombuffer(data, dtype).reshape(count, *shape[1:])
            while member.read(2**20):  # the checksum, which comes at the end, is of all rows
                pass


ArrayFile = _Hdf5 | _Npz
"""An opened file of named arrays."""


@contextmanager
def open_arrays(path: Path) -> Iterator[ArrayFile]:
    """Open an HDF5 or an NPZ file; which of them is decided by the ending of its name."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    check_name(path)
    if path.suffix.lower() == ".npz":
        with _reading(path, "the archive"):
            archive = open_zip(path)
        with archive:
            yield _Npz(path, archive)
    else:
        with _reading(path, "the file"):
            file = h5py.File(path, "r")
        with file:
            yield _Hdf5(path, file)


def write_arrays(
    path: Path,
    columns: Mapping[str, np.ndarray],
    shape: tuple[int, int],
    pieces: Iterable[Float32[np.ndarray, "_ dim"]],
) -> None:
    """Write an HDF5 or an NPZ file with short `columns` and the array "features", row after row."""
    check_name(path)
    with replacing(path) as temporary:
        write = _write_npz if path.suffix.lower() == ".npz" else _write_hdf5
        write(temporary, columns, shape, pieces)


def check_name(path: Path) -> None:
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(
            f"{path} is not a file of features: expected a name that ends in one of {', '.join(SUFFIXES)}"
        )


def _write_hdf5(
    path: Path, columns: Mapping[str, np.ndarray], shape: tuple[int, int], pieces: Iterable[np.ndarray]
) -> None:
    with h5py.File(path, "w") as file:
        for key, column in columns.items():
            file[key] = column.astype(h5py.string_dtype()) if column.dtype.kind == "U" else column
        features, done = file.create_dataset("features", shape, dtype="<f4"), 0
        for piece in pieces:
            features[done : done + len(piece)] = piece
            done += len(piece)


def _write_npz(
    path: Path, columns: Mapping[str, np.ndarray], shape: tuple[int, int], pieces: Iterable[np.ndarray]
) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for key, column in columns.items():
            with archive.open(f"{key}.npy", "w") as member:
                np.lib.format.write_array(member, column, allow_pickle=False)
        with archive.open("features.npy", "w", force_zip64=True) as member:
            header = {"descr": "<f4", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(member, header)
            for piece in pieces:
                member.write(np.ascontiguousarray(piece, dtype="<f4").data)


@contextmanager
def _reading(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except _DAMAGE as error:
        raise UserError(
            f"{path}: {what} cannot be read ({error}); the file is damaged or not of its kind, get it again"
        ) from error
