"""Arrays in HDF5 and NPZ files, read in pieces: a file may be larger than the memory."""

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

import numpy as np

from fewset.core.errors import UserError
from fewset.core.extras import import_extra
from fewset.io.arrays import LARGEST_COLUMN, array_in, read_header, reading_arrays
from fewset.io.files import replacing
from fewset.io.zips import open_member, open_zip

SUFFIXES = (".h5", ".hdf5", ".hdf", ".npz")


@runtime_checkable
class ArrayFile(Protocol):
    """An opened file of named arrays."""

    path: Path
    keys: frozenset[str]

    def describe(self, key: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and type of an array, without reading it."""

    def read(self, key: str) -> np.ndarray:
        """A whole array, for the short columns; text comes as strings."""

    def pieces(self, key: str, rows: int, chunk: int) -> Iterator[np.ndarray]:
        """The first `rows` rows of an array in order, at most `chunk` of them at a time."""


class _Npz:
    """A zip file of .npy files. A member is decompressed as a stream."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path, self.archive = path, archive
        names = archive.namelist()
        self.keys = frozenset(name.removesuffix(".npy") for name in names if name.endswith(".npy"))

    def describe(self, key: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        with reading_arrays(self.path, repr(key)), open_member(self.archive, f"{key}.npy") as member:
            shape, _, dtype = read_header(member)
            return shape, dtype

    def read(self, key: str) -> np.ndarray:
        with reading_arrays(self.path, repr(key)):
            array = array_in(self.archive, key, LARGEST_COLUMN)
            return array.astype(str) if array.dtype.kind == "S" else array

    def pieces(self, key: str, rows: int, chunk: int) -> Iterator[np.ndarray]:
        with reading_arrays(self.path, repr(key)), open_member(self.archive, f"{key}.npy") as member:
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


@contextmanager
def open_arrays(path: Path) -> Iterator[ArrayFile]:
    """Open an HDF5 or an NPZ file, by the suffix of its name. Whatever is wrong with it is a `UserError`."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    check_name(path)
    if path.suffix.lower() != ".npz":
        with _hdf5().open_hdf5(path) as arrays:
            yield arrays
        return
    with reading_arrays(path, "the file"):
        archive = open_zip(path)
    with archive:
        yield _Npz(path, archive)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an HDF5 or an NPZ file, by the suffix of its name."""
    check_name(path)
    write = _write_npz if path.suffix.lower() == ".npz" else _hdf5().write_hdf5
    with replacing(path) as temporary:
        write(temporary, arrays)


def _write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    with path.open("wb") as npz:
        np.savez(npz, **arrays)  # type: ignore[arg-type]


def _hdf5() -> ModuleType:
    """`fewset.io.hdf5`, whose library is an extra."""
    import_extra("h5py", "hdf5")
    from fewset.io import hdf5

    return hdf5


def check_name(path: Path) -> None:
    if path.suffix.lower() not in SUFFIXES:
        raise UserError(
            f"{path} is not a file of features: expected a name that ends in one of {', '.join(SUFFIXES)}"
        )
