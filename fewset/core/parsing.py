"""Dataclasses from tables of plain values (TOML, JSON): every key known, every value of the right type.

An error names the key, its value and the expected type. The class variable `later` of a dataclass lists keys
that were added after files of it were written: at their defaults they are left out of digests (`lasting`).
"""

import types
from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields, is_dataclass
from math import isfinite
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fewset.core.errors import UserError, refuse_unknown, unknown_name
from fewset.core.names import shortened

_Config = TypeVar("_Config")

_MISMATCH = object()
_LARGEST = 1e308  # the next power of ten is no float
_DIGITS = 100  # Python itself converts no more than some thousand


def parse(kind: type[_Config], table: object, where: str = "", what: str = "recipe") -> _Config:
    """A dataclass from a table of plain values; errors call the table `where`, and its file `what`."""
    if not isinstance(table, Mapping):
        raise UserError(f"the {what} is {shortened(repr(table))}, expected a table")
    hints = _hints(kind)
    for key in table:
        refuse_unknown(f"{what} key", where + key, [where + name for name in hints])
    for item in fields(kind):  # type: ignore[arg-type]
        if item.name not in table and item.default is MISSING and item.default_factory is MISSING:
            raise UserError(f"the {what} lacks {where + item.name!r}")
    return kind(**{key: parse_value(hints[key], value, where + key, what) for key, value in table.items()})


def parse_value(kind: Any, value: Any, where: str, what: str = "recipe") -> Any:
    """The value, converted to its annotation, or an error."""
    found = _value(kind, value, where, what)
    if found is _MISMATCH:
        if get_origin(kind) is Literal:
            raise unknown_name(f"value of {where}", value, get_args(kind))
        raise UserError(
            f"{where} is {shortened(repr(value))} ({type(value).__name__}), expected {describe_type(kind)}"
        )
    return found


def parse_words(kind: Any, text: str, where: str) -> Any:
    """A value from a word of the command line."""
    if get_origin(kind) is tuple:
        return tuple(parse_words(get_args(kind)[0], word.strip(), where) for word in text.split(","))
    for read in (str, int, float):
        try:
            value = read(text)
        except ValueError:
            continue
        found = _value(kind, value, where, "option")
        if found is not _MISMATCH:
            return found
    return parse_value(kind, text, where)  # an error that says what was expected


def whole_number(word: str) -> int | None:
    """The integer of a word of at most 100 digits, None for any other word."""
    return int(word) if word.isdecimal() and len(word) <= _DIGITS else None


def plain(config: Any) -> Any:
    """A dataclass as a table of plain values without None; `parse` reads it."""
    return _without_none(asdict(config))


def lasting(config: Any) -> Any:
    """The table for digests: `plain`, without the keys in `later` that have their defaults."""
    return _without_none(_without_later(config))


def flattened(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested tables by their keys joined with dots.

    >>> flattened({"seed": 0, "train": {"optimiser": {"lr": 0.1}}})
    {'seed': 0, 'train.optimiser.lr': 0.1}
    """
    found: dict[str, Any] = {}
    for key, value in table.items():
        found |= flattened(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return found


def describe_type(kind: Any) -> str:
    """An annotation in words, for errors and for help."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return " or ".join(describe_type(option) for option in arguments if option is not types.NoneType)
    if origin is Literal:
        return " or ".join(str(option) for option in arguments)
    if is_dataclass(kind) or origin is dict or kind is dict:
        return "a table"
    if origin is tuple and arguments[-1] is not ...:
        return f"a list of {len(arguments)}"
    if origin in (tuple, list):
        return "a list"
    return str(getattr(kind, "__name__", kind))


def _hints(kind: type) -> dict[str, Any]:
    names = {item.name for item in fields(kind)}
    return {name: hint for name, hint in get_type_hints(kind).items() if name in names}


def _value(kind: Any, value: Any, where: str, what: str) -> Any:
    """The value, converted where that loses nothing, or `_MISMATCH`."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        found = (_value(option, value, where, what) for option in arguments)
        return next((each for each in found if each is not _MISMATCH), _MISMATCH)
    if origin is Literal:
        known = any(value == option and type(value) is type(option) for option in arguments)
        return value if known else _MISMATCH
    if is_dataclass(kind) and isinstance(value, dict):
        return parse(kind, value, where + ".", what)  # type: ignore[arg-type]
    if origin is tuple and isinstance(value, list | tuple):
        if arguments[-1] is not ... and len(value) != len(arguments):
            return _MISMATCH
        return tuple(parse_value(arguments[0], item, where, what) for item in value)
    if origin is dict and isinstance(value, dict):
        keys = [parse_value(arguments[0], key, where, what) for key in value]
        return {key: parse_value(arguments[1], value[key], f"{where}.{key}", what) for key in keys}
    if kind is float and type(value) is int:
        return float(value) if abs(value) <= _LARGEST else _MISMATCH
    if kind is types.NoneType:
        return None if value is None else _MISMATCH
    if isinstance(kind, type) and type(value) is kind:  # not isinstance: true is no integer
        return _MISMATCH if isinstance(value, float) and not isfinite(value) else value
    return _MISMATCH


def _without_later(value: Any) -> Any:
    if not is_dataclass(value):
        return value
    later: tuple[str, ...] = getattr(value, "later", ())
    found = {}
    for item in fields(value):
        default = item.default if item.default_factory is MISSING else item.default_factory()
        if item.name not in later or getattr(value, item.name) != default:
            found[item.name] = _without_later(getattr(value, item.name))
    return found


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, tuple | list):
        return [_without_none(item) for item in value]
    return value
