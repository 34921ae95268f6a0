"""JSON files of our own formats, read as dataclasses."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from fewset.core.errors import UserError
from fewset.core.parsing import parse
from fewset.io.reading import read_json

_Config = TypeVar("_Config")


def read_record(
    kind: type[_Config], file: Path, what: str, format: int, broken: Callable[[str], UserError]
) -> _Config:
    """A dataclass from a JSON file of this format; `broken` makes the error of what is wrong with it."""
    try:
        record = read_json(file)
    except (OSError, ValueError) as error:
        raise broken(f"cannot be read ({error})") from None
    if not isinstance(record, dict):
        raise broken("does not hold a JSON object")
    if record.get("format") != format:
        raise broken(f"has format {record.get('format')!r}, expected {format}")
    try:
        return parse(kind, record, what=what)
    except UserError as error:
        raise broken(f"is not a {what} ({error})") from None
