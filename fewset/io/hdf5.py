"""HDF5 files, for which `fewset[hdf5]` brings the library; see `array_files`."""

import mmap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from fewset.io.arrays import LARGEST_COLUMN, check_unpacked, reading_arrays

_LARGEST_CHUNK = 2**26


class _Hdf5:
    """An HDF5 file."""

    def __init__(self, path: Path, file: h5py.File) -> None:
        self.path, self.file = path, file
        with reading_arrays(path, "the file"):
            self.keys = frozenset(key for key in file if self._is_inside(key))

    def _is_inside(self, key: str) -> bool:
        """Whether the file itself has an array of this name; links could read any other local file."""
        if not isinstance(self.file.get(key, getlink=True), h5py.HardLink):
            return False
        dataset = self.file.get(key)
        return isinstance(dataset, h5py.Dataset) and not dataset.is_virtual and not dataset.external

    def describe(self, key: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        with reading_arrays(self.path, repr(key)):
            dataset = self.file[key]
            check_unpacked(dataset.nbytes, self.path.stat().st_size)
            chunk = prod(dataset.chunks or ()) * dataset.dtype.itemsize  # which is read as a whole
            if dataset.chunks and chunk > max(2 * dataset.nbytes, _LARGEST_CHUNK):
                raise ValueError(f"it has {dataset.nbytes:,} bytes in chunks of {chunk:,}")
            return dataset.shape or (), dataset.dtype

    def read(self, key: str) -> np.ndarray:
        self.describe(key)
        with reading_arrays(self.path, repr(key)):
            dataset = self.file[key]
            if dataset.nbytes > LARGEST_COLUMN:
                raise ValueError(f"it claims {dataset.nbytes} bytes, the limit is {LARGEST_COLUMN}")
            if dataset.dtype.kind == "O":
                _check_heaps(self.path)
            if h5py.check_string_dtype(dataset.dtype) is not None:
                return np.asarray(dataset.asstr()[()], dtype=str)
            if dataset.dtype.kind == "O":
                raise TypeError("its values are lists or references")
            return np.asarray(dataset[()])

    def pieces(self, key: str, rows: int, chunk: int) -> Iterator[np.ndarray]:
        for first in range(0, rows, chunk):
            with reading_arrays(self.path, repr(key)):
                piece = self.file[key][first : min(first + chunk, rows)]
            yield piece


@contextmanager
def open_hdf5(path: Path) -> Iterator[_Hdf5]:
    with reading_arrays(path, "the file"):
        file = h5py.File(path, "r")
    with file:
        yield _Hdf5(path, file)


def write_hdf5(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with h5py.File(path, "w") as file:
        for key, array in arrays.items():
            file[key] = array.astype(h5py.string_dtype()) if array.dtype.kind == "U" else array


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
