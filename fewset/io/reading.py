"""Files that somebody else may have written: only regular ones are read, and whatever is wrong is one error.

A pipe or a device could keep the program waiting for ever, or have no end. What nests too deeply for Python
is damage like any other.
"""

import json
import os
import tomllib
from collections.abc import Iterable
from io import BufferedReader
from pathlib import Path
from typing import Any

_LARGEST_TEXT = 2**28
_DEEPEST = 100  # tables and lists within each other
_LARGEST_NUMBER = 10**300  # whole numbers beyond this are not even a float


class NotRegular(OSError):  # noqa: N818
    """A pipe, a device, a socket or a directory where a file is expected."""


def regular_file(path: Path) -> Path:
    """The path, unless there is a pipe, a device, a socket or a directory: then an `OSError`."""
    if path.exists() and not path.is_file():
        raise NotRegular(f"{path} is not a regular file, but a directory, a pipe, a socket or a device")
    return path


def open_file(path: Path) -> BufferedReader:
    """A regular file, opened for reading."""
    return regular_file(path).open("rb")


def read_bytes(path: Path, largest: int) -> bytes:
    """The content of a regular file of at most so many bytes; of a larger one, an `OSError`."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(largest + 1) if size <= largest else b""
    if max(size, len(content)) > largest:  # a file that is still written may grow while it is read
        raise OSError(f"file of {max(size, len(content))} bytes, more than the limit of {largest}")
    return content


def read_text(path: Path) -> str:
    """The text of a file in UTF-8; `OSError` or `ValueError` where it is none."""
    return read_bytes(path, _LARGEST_TEXT).decode("utf-8")


def read_json(path: Path) -> Any:
    """The content of a JSON file; `OSError` or `ValueError`, whatever is wrong with it."""
    return parse_json(read_text(path))


def parse_json(text: str) -> Any:
    """The value of a JSON text; `ValueError` whatever is wrong with it."""
    try:
        return _bounded(json.loads(text))
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def parse_toml(text: str) -> dict[str, Any]:
    """The table of a TOML text; `ValueError` whatever is wrong with it."""
    try:
        table: dict[str, Any] = _bounded(tomllib.loads(text))
        return table
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def _bounded(value: Any) -> Any:
    """The value; what nests deeper than any of our files could be read, but perhaps not written again."""
    level, depth = [value], 0
    while level:
        if any(isinstance(each, int) and abs(each) > _LARGEST_NUMBER for each in level):
            raise ValueError("it has a number that is too large")
        level = [item for each in level for item in _items(each)]
        depth += 1
        if depth > _DEEPEST + 1:
            raise RecursionError
    return value


def _items(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
