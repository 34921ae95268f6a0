"""Arrays in HDF5 and NPZ files, read in pieces: a file may be larger than the memory."""

import mmap
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fewset.core.errors import UserError
from fewset.io.arrays import array_in, check_unpacked, read_header
from fewset.io.files import replacing
from fewset.io.zips import open_member, open_zip

SUFFIXES = (".h5", ".hdf5", ".hdf", ".npz")
_LARGEST_COLUMN = 2**28  # bytes
_LARGEST_CHUNK = 2**26


class _Hdf5:
    """An HDF5 file."""

    def __init__(self, path: Path, file: h5py.File) -> None:
        self.path, self.file = path, file
        with _reading(path, "the file"):
            self.keys = frozenset(key for key in file if self._is_inside(key))

    def _is_inside(self, key: str) -> bool:
        """Whether the file itself has an array of this name; links could read any other local file."""
        if not isinstance(self.file.get(key, getlink=True), h5py.HardLink):
            return False
        dataset = self.file.get(key)
        return isinstance(dataset, h5py.Dataset) and not dataset.is_virtual and not dataset.external

    def describe(self, key: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and type of an array, without reading it."""
        with _reading(self.path, repr(key)):
            dataset = self.file[key]
            check_unpacked(dataset.nbytes, self.path.stat().st_size)
            chunk = prod(dataset.chunks or ()) * dataset.dtype.itemsize  # which is read as a whole
            if dataset.chunks and chunk > max(2 * dataset.nbytes, _LARGEST_CHUNK):
                raise ValueError(f"it has {dataset.nbytes:,} bytes in chunks of {chunk:,}")
            return dataset.shape or (), dataset.dtype

    def read(self, key: str) -> np.ndarray:
        """A whole array, for the short columns; text comes as strings."""
        self.describe(key)
        with _reading(self.path, repr(key)):
            dataset = self.file[key]
            if dataset.nbytes > _LARGEST_COLUMN:
                raise ValueError(f"it claims {dataset.nbytes} bytes, the limit is {_LARGEST_COLUMN}")
            if dataset.dtype.kind == "O":
                _check_heaps(self.path)
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
    """A zip file of .npy files, with the same methods. A member is decompressed as a stream."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path, self.archive = path, archive
        names = archive.namelist()
        self.keys = frozenset(name.removesuffix(".npy") for name in names if name.endswith(".npy"))

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
                raise ValueError("it is stored column by column; save numpy.ascontiguousarray of it")
            width = dtype.itemsize * prod(shape[1:])
            for first in range(0, rows, chunk):
                count = min(chunk, rows - first)
                data = member.read(count * width)
                if len(data) < count * width:
                    raise EOFError(f"it ends before row {first + count}")
                yield np.frombuffer(data, dtype).reshape(count, *shape[1:])
            while member.read(2**20):  # to the end, where the checksum of all rows is
                pass


ArrayFile = _Hdf5 | _Npz
"""An opened file of named arrays."""


@contextmanager
def open_arrays(path: Path) -> Iterator[ArrayFile]:
    """Open an HDF5 or an NPZ file, by the suffix of its name. Whatever is wrong with it is a `UserError`."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    check_name(path)
    is_npz = path.suffix.lower() == ".npz"
    with _reading(path, "the file"):
        file = open_zip(path) if is_npz else h5py.File(path, "r")
    with file:
        yield _Npz(path, file) if is_npz else _Hdf5(path, file)


@contextmanager
def _reading(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # h5py raises almost anything for a damaged file
        raise UserError(
            f"{path}: {what} cannot be read ({error}); the file is damaged or of another kind, get it again"
        ) from error


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an HDF5 or an NPZ file, by the suffix of its name."""
    check_name(path)
    with replacing(path) as temporary:
        if path.suffix.lower() == ".npz":
            with temporary.open("wb") as npz:
                np.savez(npz, **arrays)  # type: ignore[arg-type]
            return
        with h5py.File(temporary, "w") as file:
            for key, array in arrays.items():
                file[key] = array.astype(h5py.string_dtype()) if array.dtype.kind == "U" else array


def check_name(path: Path) -> None:
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(
            f"{path} is not a file of features: expected a name that ends in one of {', '.join(SUFFIXES)}"
        )


def _check_heaps(path: Path) -> None:
    """A ValueError for a global heap, where values of variable length are, whose objects are not in sequence.

    libhdf5 goes from object to object by the sizes that they claim, and would never stop.
    """
    signature, header = b"GCOL\x01\0\0\0", 16  # of a heap, and bytes of its header and of each object's
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:

        def number(place: int, length: int) -> int:
            return int.from_bytes(data[place : place + length], "little")

        start = data.find(signature)
        while start >= 0:
            place, end = start + header, start + number(start + 8, 8)
            while place + header <= end:
                index, size = number(place, 2), number(place + 8, 8)
                # Object 0 is free space, and its size includes the header.
                step = header + -(-size // 8) * 8 if index else size
                if step < header or place + step > min(end, len(data)):
                    raise ValueError("a heap in it is damaged")
                place += step
            start = data.find(signature, start + 1)
