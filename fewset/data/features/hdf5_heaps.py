"""The global heaps of an HDF5 file, in which values of variable length lie, checked before they are read.

libhdf5 goes from object to object by the sizes that these claim. Where a damaged one leads nowhere, it goes
on for ever.
"""

import mmap
from pathlib import Path

_START = b"GCOL\x01\0\0\0"  # signature, version, reserved
_HEADER = 16  # bytes: of a heap, and of each object in it


def check_heaps(path: Path) -> None:
    """A ValueError where the objects of a heap do not lie one behind the other."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        start = data.find(_START)
        while start >= 0:
            end = start + _number(data, start + 8, 8)
            if end > len(data):
                raise ValueError("a heap of it is cut off")
            place = start + _HEADER
            while place + _HEADER <= end:
                index, size = _number(data, place, 2), _number(data, place + 8, 8)
                # Object 0 is what is free, its header included.
                step = _HEADER + -(-size // 8) * 8 if index else size
                if step < _HEADER or place + step > end:
                    raise ValueError("the objects of a heap of it do not lie one behind the other")
                place += step
            start = data.find(_START, start + 1)


def _number(data: mmap.mmap, place: int, length: int) -> int:
    return int.from_bytes(data[place : place + length], "little")
