"""Arrays in NumPy's own format that others may have written.

A header may claim any size, so memory is taken only for bytes that are there. A small .npz file of zeros does
not become a large array.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from math import prod
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile

import numpy as np

from fewset.core.errors import UserError
from fewset.io.zips import open_member

LARGEST = 2**31
LARGEST_COLUMN = 2**28  # bytes
_PIECE = 2**24
_PACKED, _SMALL = 50, 2**24  # bytes that one packed byte may become, and bytes that are always allowed


def read_header(file: BufferedIOBase | IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order (column by column?) and type of the array at the start of `file`."""
    try:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, by_column, dtype = read[version](file)
    except (OSError, ValueError):
        raise
    except Exception as error:  # NumPy parses the header as Python: it may be anything
        raise ValueError(f"its header cannot be read ({type(error).__name__}: {error})") from None
    if dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError(
            f"it holds an array of shape {shape} and type {dtype}, expected plain numbers or text"
        )
    return shape, by_column, dtype


def read_array(file: BufferedIOBase | IO[bytes], largest: int = LARGEST) -> np.ndarray:
    """The array of at most `largest` bytes in a file."""
    shape, by_column, dtype = read_header(file)
    length = prod(shape) * dtype.itemsize
    if length > largest:
        raise ValueError(f"it claims an array of {length} bytes, more than the limit of {largest}")
    content = bytearray()
    while len(content) < length:
        piece = file.read(min(_PIECE, length - len(content)))
        if not piece:
            raise ValueError(f"it ends after {len(content)} of {length} bytes")
        content += piece
    array = np.frombuffer(content, dtype)
    return array.reshape(shape[::-1]).T if by_column else array.reshape(shape)


def array_in(archive: ZipFile, name: str, largest: int = LARGEST) -> np.ndarray:
    """The array `name` of an .npz file."""
    with open_member(archive, f"{name}.npy") as member:
        check_unpacked(sum(each.file_size for each in archive.infolist()), archive.start_dir)
        array = read_array(member, largest)
        if member.read(1):
            raise ValueError("it has more bytes after its array")
        return array


def check_unpacked(size: int, packed: int) -> None:
    """Raise if a file of `packed` bytes claims far more: it is damaged or meant to fill memory."""
    if size > _PACKED * packed + _SMALL:
        raise ValueError(
            f"the file has {packed:,} bytes and claims {size:,}; if that is right, save it uncompressed"
        )


def check_numbers(column: np.ndarray, limit: int, name: str) -> None:
    """Raise unless a column holds indices from 0 to below a limit."""
    if column.dtype != np.int64 or column.min(initial=0) < 0 or column.max(initial=0) >= limit:
        raise ValueError(f"{name} of type {column.dtype}, expected whole numbers below {limit}")


@contextmanager
def reading_arrays(path: Path, what: str) -> Iterator[None]:
    """Whatever a library raises for a damaged file is a user's error about `what` of it."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # h5py raises almost anything
        raise UserError(
            f"{path}: {what} cannot be read ({error}); the file is damaged or of another kind, get it again"
        ) from error
