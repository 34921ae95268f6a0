"""Damage, drawn from a seed: to bytes, to plain values, to names and numbers."""

import json
import struct
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

_HUGE = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1]
_WORDS = "<B", "<H", ">H", "<I", ">I", "<Q", ">Q"


class Spared(Random):
    """A generator with which nothing is damaged: what is drawn is whole, and must be accepted."""


# Bytes


def damaged(data: bytes, rng: Random, most: int = 4) -> bytes:
    """The bytes after one or several changes, each anywhere or near the beginning, where headers are."""
    if isinstance(rng, Spared):
        return data
    for _ in range(rng.randint(1, most)):
        data = rng.choice(_CHANGES)(data, rng)
    return data


def flipped(data: bytes, rng: Random) -> bytes:
    """The bytes with one bit changed, anywhere: of a packed file mostly in what is packed."""
    if isinstance(rng, Spared) or not data:
        return data
    changed = bytearray(data)
    changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _flip(data: bytes, rng: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if changed:
            changed[_place(data, rng)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(data: bytes, rng: Random) -> bytes:
    place = _place(data, rng)
    junk = rng.randbytes(rng.choice((1, 2, 4, 16)))
    return data[:place] + junk + data[place + len(junk) :]


def _huge(data: bytes, rng: Random) -> bytes:
    """A length, a size or an offset that may be read there becomes large, zero or negative."""
    kind, place = rng.choice(_WORDS), _place(data, rng)
    number = struct.pack(kind, rng.choice(_HUGE) % 256 ** struct.calcsize(kind))
    return data[:place] + number + data[place + len(number) :]


def _truncate(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _delete(data: bytes, rng: Random) -> bytes:
    first, last = _piece(data, rng)
    return data[:first] + data[last:]


def _duplicate(data: bytes, rng: Random) -> bytes:
    first, last = _piece(data, rng)
    return data[:last] + data[first:last] * rng.choice((1, 1, 2, 50)) + data[last:]


def _splice(data: bytes, rng: Random) -> bytes:
    """A piece is copied over another place."""
    first, last = _piece(data, rng)
    place = _place(data, rng)
    return data[:place] + data[first:last] + data[place + last - first :]


def _zero(data: bytes, rng: Random) -> bytes:
    first, last = _piece(data, rng)
    return data[:first] + bytes(last - first) + data[last:]


def _insert(data: bytes, rng: Random) -> bytes:
    place = _place(data, rng)
    return data[:place] + rng.randbytes(rng.choice((1, 3, 64))) + data[place:]


_CHANGES: Sequence[Callable[[bytes, Random], bytes]] = (
    _flip, _flip, _overwrite, _huge, _huge, _truncate, _delete, _duplicate, _splice, _zero, _insert,
)  # fmt: skip


def _place(data: bytes, rng: Random) -> int:
    """Half of all places are among the first 256."""
    return rng.randrange(max(1, min(len(data), 256) if rng.random() < 0.5 else len(data)))


def _piece(data: bytes, rng: Random) -> tuple[int, int]:
    first = _place(data, rng)
    return first, min(len(data), first + rng.choice((1, 4, 16, 256, len(data))))


# Names and numbers

_LETTERS = "aZ9 ./\\:*?\"<>|%{}[]()'`$;&=,#@!~\t\n\r\0\x1b\x7f\u00e9\u4f60\u202e\u200f\ufeff\U0001f426"
_TEXTS = [
    "", " ", ".", "..", "../x", "..\\x", "/", "//", "a/../../b", "a\\b", "C:\\x", "C:x", "~", "~root",
    "$HOME", "con", "nul.txt", "-", "--", "-rf", "x" * 255, "x" * 256, "y" * 5000, "a\nb", "a\rb", "a\0b",
    "\x1b[31mred", "[red]x[/red]", "[/x]", "%s%n", "{0}", "{{x}}", "<script>alert(1)</script>", "=1+1",
    "'; --", "None", "null", "true", "nan", "inf", "-1", "1e999", "0x10", "1_000", "\u0661", "\u00b2",
    "\ud800",
    "a\udcff", "\u202eabc", "e\u0301", "\u00e9", "\ufeffx", "\U0001f426", "tiny", "runs/feat",
    "a" + "\u0300" * 300,
]  # fmt: skip
_NUMBERS = [
    0, 1, -1, 2, 7, 255, -(2**31), 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64,
    10**30, 10**400, 0.0, -0.0, 0.5, 1.5, -0.1, 1e-320, 1e300, 1e309, -1e309, float("nan"), 5e-324,
]  # fmt: skip


def odd_text(rng: Random) -> str:
    """A name or word as nobody chooses it."""
    if rng.random() < 0.7:
        return rng.choice(_TEXTS)
    return "".join(rng.choice(_LETTERS) for _ in range(rng.choice((1, 2, 5, 40))))


def odd_number(rng: Random) -> int | float:
    return rng.choice(_NUMBERS)


def odd_words(rng: Random) -> str:
    """What may stand for a number or a name on a command line; surrogates are the bytes of a file's name."""
    text = str(odd_number(rng)) if rng.random() < 0.5 else odd_text(rng)
    return text.encode("utf-8", "surrogateescape" if "\udcff" in text else "replace").decode(
        "utf-8", "surrogateescape"
    )


# Plain values, as in JSON and TOML


def odd_value(rng: Random) -> Any:
    """Any value; now and then one that nests very deeply."""
    kind = rng.randrange(12)
    if kind < 3:
        return odd_text(rng)
    if kind < 6:
        return odd_number(rng)
    if kind == 6:
        return nested(rng.choice((3, 40, 900, 60_000)), rng)
    small = [None, True, False, [], {}, [[]], [None], {"": None}, [1, "a"], {"a": [1]}, [[1, 2], [3]]]
    return rng.choice(small)


class nested:  # noqa: N801, written like the lists and dictionaries that it stands for
    """A list in a list in a list, so deep that Python cannot hold it: it is written as text only."""

    def __init__(self, depth: int, rng: Random) -> None:
        self.depth, self.mapping = depth, rng.random() < 0.5

    def text(self) -> str:
        start, end = ('{"a":', "}") if self.mapping else ("[", "]")
        return start * self.depth + "1" + end * self.depth


def altered(value: Any, rng: Random, most: int = 3) -> Any:
    """A value in which some places are replaced, removed, repeated, or renamed. The original stays."""
    if isinstance(rng, Spared):
        return value
    for _ in range(rng.randint(1, most)):
        value = _altered_at(value, rng.choice(_places(value)), rng)
    return value


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value within a value, its own first; of long lists the first twenty."""
    found = [path]
    if isinstance(value, dict):
        for key, item in value.items():
            found += _places(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value[:20]):
            found += _places(item, (*path, number))
    return found


def _altered_at(value: Any, path: tuple[Any, ...], rng: Random) -> Any:
    if not path:
        return _changed(value, rng)
    first, *rest = path
    if isinstance(value, dict):
        table = dict(value)
        action = rng.randrange(6) if not rest else 5
        if action == 0:
            del table[first]
        elif action == 1:
            table[odd_text(rng)] = table.pop(first)
        else:
            table[first] = _altered_at(table[first], tuple(rest), rng)
        return table
    items = list(value)
    action = rng.randrange(6) if not rest else 5
    if action == 0:
        del items[first]
    elif action == 1:
        items += [items[first]] * rng.choice((1, 2, 300))
    else:
        items[first] = _altered_at(items[first], tuple(rest), rng)
    return items


def _changed(value: Any, rng: Random) -> Any:
    """Another value, often of the same type."""
    if rng.random() < 0.4:
        return odd_value(rng)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return odd_number(rng)
    if isinstance(value, str):
        return rng.choice((odd_text(rng), value + odd_text(rng), odd_text(rng) + value))
    if isinstance(value, list):
        return [*value[: len(value) // 2], odd_value(rng)]
    return {**value, odd_text(rng): odd_value(rng)} if isinstance(value, dict) else odd_value(rng)


def json_text(value: Any) -> str:
    """JSON with what its standard does not have, too: NaN, infinity, lone surrogates, any depth."""
    return _filled(json.dumps(value, default=_mark, allow_nan=True), value)


def toml_text(value: Any) -> str:
    """A TOML file of one inline table a key."""
    if not isinstance(value, dict):
        return json_text(value)
    return _filled("".join(f"{json.dumps(key)} = {_toml(item)}\n" for key, item in value.items()), value)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return json.dumps(value, default=_mark)
    return repr(value)


_MARK = "a deep nest of "


def _mark(value: "nested") -> str:
    return f"{_MARK}{value.depth}"


def _filled(text: str, value: Any) -> str:
    """The text with the deep nests in their places."""
    for path in _places(value):
        item = value
        for step in path:
            item = item[step]
        if isinstance(item, nested):
            text = text.replace(json.dumps(_mark(item)), item.text(), 1)
    return text
