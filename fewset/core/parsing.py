"""Dataclasses from tables of plain values (TOML, JSON): every key known, every value of the right type.

Recipes, results, studies and the options of protocols are all read here, so that they are refused alike: with
the key, what it is, and what was expected. A dataclass whose keys were once called otherwise says so in
`renamed`, a class variable from old to new names; the old ones still work, with a warning. One that has got
keys since files of it were written names them in `later`, so that digests of those files stay as they are.
"""

import sys
import types
import warnings
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, fields, is_dataclass
from math import isfinite
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from fewset.core.errors import UserError, refuse_unknown, unknown_name
from fewset.core.names import shortened

_Config = TypeVar("_Config")

_MISMATCH = object()
_LARGEST = int(sys.float_info.max)
_DIGITS = 100  # Python itself converts no more than some thousand


def parse(kind: type[_Config], table: object, where: str = "", what: str = "recipe") -> _Config:
    """A dataclass from a table of plain values; `where` names the table, `what` the whole that it is in."""
    if not isinstance(table, Mapping):
        raise UserError(f"the {what} is {shortened(repr(table))}, expected a table")
    hints = _hints(kind)
    table = _with_new_names(kind, table, where, what)
    for key in table:
        refuse_unknown(f"{what} key", where + key, [where + name for name in hints])
    for item in fields(kind):  # type: ignore[arg-type]
        if item.name not in table and item.default is MISSING and item.default_factory is MISSING:
            raise UserError(f"the {what} lacks {where + item.name!r}")
    return kind(**{key: parse_value(hints[key], value, where + key, what) for key, value in table.items()})


def parse_value(kind: Any, value: Any, where: str, what: str = "recipe") -> Any:
    """A value as its annotation wants it, or an error."""
    found = _value(kind, value, where, what)
    if found is _MISMATCH:
        if get_origin(kind) is Literal:
            raise unknown_name(f"value of {where}", value, get_args(kind))
        raise UserError(
            f"{where} is {shortened(repr(value))} ({type(value).__name__}), expected {describe_type(kind)}"
        )
    return found


def parse_words(kind: Any, text: str, where: str) -> Any:
    """A value that was given as a word of the command line."""
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
    """The number that a word of digits is, None for any other word, and for one that is absurdly long."""
    return int(word) if word.isdecimal() and len(word) <= _DIGITS else None


def plain(config: Any) -> Any:
    """A dataclass as a table of plain values, without what is None; `parse` reads it."""
    return _without_none(asdict(config))


def lasting(config: Any) -> Any:
    """As `plain`, without the keys in `later` that have their defaults: what a digest is made of."""
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


def _with_new_names(kind: type, table: Mapping[str, Any], where: str, what: str) -> Mapping[str, Any]:
    renamed: Mapping[str, str] = getattr(kind, "renamed", {})
    for old, new in renamed.items():
        if old in table:
            if new in table:
                raise UserError(f"the {what} has both {where + old!r} and {where + new!r}, its new name")
            warnings.warn(f"{where}{old} is now called {where}{new}", FutureWarning, stacklevel=2)
            table = {renamed.get(key, key): value for key, value in table.items()}
    return table


def _value(kind: Any, value: Any, where: str, what: str) -> Any:
    """The value, converted where that loses nothing, or `_MISMATCH`."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, types.UnionType):
        found = (_value(option, value, where, what) for option in arguments)
        return next((each for each in found if each is not _MISMATCH), _MISMATCH)
    if origin is Literal:
        return (
            value
            if any(value == option and type(value) is type(option) for option in arguments)
            else _MISMATCH
        )
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
    if isinstance(kind, type) and type(value) is kind:  # not isinstance: true is no number
        return _MISMATCH if isinstance(value, float) and not isfinite(value) else value
    return _MISMATCH


def _without_later(value: Any) -> Any:
    if not is_dataclass(value):
        return value
    later: tuple[str, ...] = getattr(value, "later", ())
    return {
        item.name: _without_later(getattr(value, item.name))
        for item in fields(value)
        if item.name not in later or getattr(value, item.name) != _default(item)
    }


def _default(item: Field[Any]) -> Any:
    return item.default if item.default_factory is MISSING else item.default_factory()


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, tuple | list):
        return [_without_none(item) for item in value]
    return value
