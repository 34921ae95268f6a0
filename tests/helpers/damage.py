"""Damage, drawn from a seed: to bytes, to plain values, to names and numbers."""

import json
import re
import struct
from random import Random
from typing import Any

_LARGE = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1]


class Spared(Random):
    """A generator with which nothing is damaged: what is drawn is whole, and must be accepted."""


# Bytes


def damaged(data: bytes, rng: Random, most: int = 4) -> bytes:
    """The bytes after one or several changes, each anywhere or near the beginning, where headers are."""
    if isinstance(rng, Spared):
        return data
    for _ in range(rng.randint(1, most)):
        data = _damaged_once(data, rng)
    return data


def _damaged_once(data: bytes, rng: Random) -> bytes:
    place = _place(data, rng)
    end = min(len(data), place + rng.choice((1, 4, 16, 256, len(data))))
    before, piece, after = data[:place], data[place:end], data[end:]
    junk = rng.randbytes(rng.choice((1, 2, 4, 16, 64)))
    word = rng.choice(("<B", "<H", ">H", "<I", ">I", "<Q", ">Q"))  # a length, a size or an offset
    number = struct.pack(word, rng.choice(_LARGE) % 256 ** struct.calcsize(word))
    target = _place(data, rng)
    changes = [
        flipped(data, rng),
        before + flipped(piece, rng) + after,
        before + junk + data[place + len(junk) :],
        before + number + data[place + len(number) :],
        before,
        before + after,
        before + piece * rng.choice((2, 2, 3, 51)) + after,
        data[:target] + piece + data[target + len(piece) :],
        before + bytes(len(piece)) + after,
        before + junk + piece + after,
    ]
    return rng.choice(changes)


def _place(data: bytes, rng: Random) -> int:
    """Half of all places are among the first 256."""
    return rng.randrange(max(1, min(len(data), 256) if rng.random() < 0.5 else len(data)))


def flipped(data: bytes, rng: Random) -> bytes:
    """The bytes with one bit changed, anywhere: of a packed file mostly in what is packed."""
    if isinstance(rng, Spared) or not data:
        return data
    changed = bytearray(data)
    changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


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
    """A name or word that no user would choose."""
    if rng.random() < 0.7:
        return rng.choice(_TEXTS)
    return "".join(rng.choice(_LETTERS) for _ in range(rng.choice((1, 2, 5, 40))))


def odd_number(rng: Random) -> int | float:
    return rng.choice(_NUMBERS)


def odd_words(rng: Random) -> str:
    """A number or a name on a command line; surrogates are the bytes of a file's name."""
    text = str(odd_number(rng)) if rng.random() < 0.5 else odd_text(rng)
    return text.encode("utf-8", "surrogateescape" if "\udcff" in text else "replace").decode(
        "utf-8", "surrogateescape"
    )


# Plain values, as in JSON and TOML


def odd_value(rng: Random) -> Any:
    """Any value; now and then the mark of a list or table that nests very deeply, as text only can."""
    kind = rng.randrange(12)
    if kind < 3:
        return odd_text(rng)
    if kind < 6:
        return odd_number(rng)
    if kind == 6:
        return f"nest {rng.choice((3, 40, 900, 60_000))} {rng.choice(('list', 'table'))}"
    small = [None, True, False, [], {}, [[]], [None], {"": None}, [1, "a"], {"a": [1]}, [[1, 2], [3]]]
    return rng.choice(small)


def _nest(mark: re.Match[str]) -> str:
    depth = int(mark[1])
    start, end = ("[", "]") if mark[2] == "list" else ('{"a":', "}")
    return start * depth + "1" + end * depth


def altered(value: Any, rng: Random, most: int = 3) -> Any:
    """A value in which some places are replaced, removed, repeated, or renamed. The original stays."""
    if isinstance(rng, Spared):
        return value
    for _ in range(rng.randint(1, most)):
        value = _altered_at(value, rng.choice(_places(value)), rng)
    return value


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value within a value, its own first; of long lists the first twenty."""
    if isinstance(value, dict):
        items = list(value.items())
    else:
        items = list(enumerate(value[:20])) if isinstance(value, list) else []
    return [path, *(place for key, item in items for place in _places(item, (*path, key)))]


def _altered_at(value: Any, path: tuple[Any, ...], rng: Random) -> Any:
    if not path:
        return _changed(value, rng)
    first, *rest = path
    holder = dict(value) if isinstance(value, dict) else list(value)
    action = 5 if rest else rng.randrange(6)
    if action == 0:
        del holder[first]
    elif action == 1 and isinstance(holder, dict):
        holder[odd_text(rng)] = holder.pop(first)
    elif action == 1:
        holder += [holder[first]] * rng.choice((1, 2, 300))
    else:
        holder[first] = _altered_at(holder[first], tuple(rest), rng)
    return holder


def _changed(value: Any, rng: Random) -> Any:
    """Another value, often of the same type."""
    if rng.random() < 0.6:
        if isinstance(value, bool):
            return not value
        if isinstance(value, int | float):
            return odd_number(rng)
        if isinstance(value, str):
            return rng.choice((odd_text(rng), value + odd_text(rng)))
        if isinstance(value, list):
            return [*value[: len(value) // 2], odd_value(rng)]
    return odd_value(rng)


def json_text(value: Any) -> str:
    """JSON, with NaN, infinity and lone surrogates, which its standard lacks, and of any depth."""
    return re.sub(r'"nest (\d+) (list|table)"', _nest, json.dumps(value))


def toml_text(value: Any) -> str:
    """A TOML file of one inline table a key."""
    if not isinstance(value, dict):
        return json_text(value)
    return "".join(f"{json.dumps(key)} = {_toml(item)}\n" for key, item in value.items())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return json_text(value)
    return repr(value)
