"""Files that others may have written: JSON, TOML and text, and the one exception for damaged files.

with remedy("import the set again"):      # once, where a user's command begins
    with parsing(path):                   # in the reader; whatever a library raises is Damaged
        table = dict(read_json(path))
"""

import json
import os
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

from fewset.core.errors import UserError
from fewset.core.names import one_line
from fewset.core.parsing import parse

_Config = TypeVar("_Config")

_LARGEST_TEXT = 2**28
_DEEPEST = 100  # tables and lists within each other
_LARGEST_NUMBER = 10**300  # whole numbers beyond this are not even a float


class Damaged(OSError, ValueError):  # noqa: N818
    """A file that cannot be read as its format: its path, and the reason as the rest of a sentence."""

    def __init__(self, path: Path, reason: str) -> None:
        self.args = path, reason
        self.path, self.reason = path, reason

    def __str__(self) -> str:
        return f"{self.path} {self.reason}"


@contextmanager
def parsing(path: Path) -> Iterator[None]:
    """Turn any error of the block into `Damaged`: a parser of foreign bytes may raise almost anything.

    Errors of the system, such as a missing file, and users' errors stay as they are.
    """
    try:
        yield
    except (Damaged, UserError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        said = one_line(" ".join(str(error).split()))
        if not said or not isinstance(error, OSError | ValueError):
            said = f"{type(error).__name__}: {said}"
        raise Damaged(path, f"cannot be read ({said})") from error


@contextmanager
def remedy(words: str) -> Iterator[None]:
    """Add to the error about a damaged file how the user can fix it."""
    try:
        yield
    except Damaged as error:
        raise UserError(f"{error}; {words}") from error


def regular_file(path: Path) -> Path:
    """The path, unless it is a directory, or a pipe or device, which could keep a reader waiting for ever."""
    if path.exists() and not path.is_file():
        raise Damaged(path, "is not a regular file, but a directory, a pipe, a socket or a device")
    return path


def open_file(path: Path) -> BufferedReader:
    """A regular file, opened for reading."""
    return regular_file(path).open("rb")


def read_bytes(path: Path, largest: int) -> bytes:
    """The content of a regular file of at most `largest` bytes."""
    with open_file(path) as file:
        content = file.read(largest + 1)
        size = os.fstat(file.fileno()).st_size
    if len(content) > largest:
        raise Damaged(path, f"is a file of {size} bytes, more than the limit of {largest}")
    return content


def read_text(path: Path) -> str:
    """The text of a file in UTF-8."""
    content = read_bytes(path, _LARGEST_TEXT)
    with parsing(path):
        return content.decode("utf-8")


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    text = read_text(path)
    with parsing(path):
        return parse_json(text)


def parse_json(text: str) -> Any:
    """The value of a JSON text; `ValueError` if it is not one."""
    return _parsed(json.loads, text)


def parse_toml(text: str) -> dict[str, Any]:
    """The table of a TOML text; `ValueError` if it is not one."""
    table: dict[str, Any] = _parsed(tomllib.loads, text)
    return table


def read_record(
    kind: type[_Config], file: Path, what: str, format: int, broken: Callable[[str], UserError]
) -> _Config:
    """A dataclass from a JSON file of this format; `broken` makes the error from the reason."""
    try:
        with parsing(file):
            record = dict(read_json(file))
            if record.get("format") != format:
                raise Damaged(file, f"has format {record.get('format')!r}, expected {format}")
        return parse(kind, record, what=what)
    except Damaged as error:
        raise broken(error.reason) from None
    except UserError as error:
        raise broken(f"is not a {what} ({error})") from None


def _parsed(loads: Callable[[str], Any], text: str) -> Any:
    try:
        value = loads(text)
    except RecursionError:
        raise ValueError("it nests too deeply") from None
    _check_bounds(value)
    return value


def _check_bounds(value: Any, depth: int = 0) -> None:
    """Raise for a value that Python could read, but perhaps not write again."""
    if depth > _DEEPEST:
        raise ValueError("it nests too deeply")
    if isinstance(value, int) and abs(value) > _LARGEST_NUMBER:
        raise ValueError("it has a number that is too large")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_bounds(item, depth + 1)
