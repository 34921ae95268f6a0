"""The pickles in which miniImageNet and tieredImageNet are passed on, also those of Python 2."""

import pickle
import pickletools
from functools import cache
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.case import FUZZED, Case, command, reader
from tests.fuzz.readers.images import damaged_photo, photos
from tests.fuzz.room import Room
from tests.helpers.damage import Spared, altered, damaged, odd_number, odd_text
from tests.helpers.python_2 import python_2_array

_PIXELS = np.arange(4 * 84 * 84 * 3, dtype=np.uint8).reshape(4, 84, 84, 3)
_SPLITS = "train", "val", "test"


def _contents(rng: Random) -> tuple[str, dict[str, Any]]:
    """The kind of set and its files; pixels are few, so that most bytes are structure."""
    kind = rng.randrange(3)
    files: dict[str, Any] = {}
    for split, part in zip(_SPLITS, ("train_phase_train", "val", "test"), strict=True):
        one, two = f"{split} a", f"{split} b"  # no class is in two splits
        labels = [0, 1, 0, 1]
        if kind == 0:
            content: Any = {"image_data": _PIXELS, "class_dict": {one: [0, 2], two: [1, 3]}}
            files[f"mini-imagenet-cache-{split}.pkl"] = content
        elif kind == 1:
            content = {"data": _PIXELS, "labels": labels, "catname2label": {one: 0, two: 1}}
            files[f"miniImageNet_category_split_{part}.pickle"] = content
        else:
            png = np.frombuffer(photos()["PNG"], dtype=np.uint8)[:, None].copy()
            files[f"{split}_images_png.pkl"] = [png] * 4
            content = {"label_specific": np.array(labels), "label_specific_str": [one, two]}
            files[f"{split}_labels.pkl"] = content
    return "miniimagenet" if kind < 2 else "tieredimagenet", files


def _arrays(value: Any, rng: Random) -> Any:
    """The value with some arrays of another shape or type, or no arrays at all."""
    if isinstance(value, dict):
        return {key: _arrays(item, rng) for key, item in value.items()}
    if isinstance(value, list):
        return [_arrays(item, rng) for item in value]
    if not isinstance(value, np.ndarray) or rng.random() < 0.5:
        return value
    kind = rng.randrange(5)
    if kind == 0:
        return value.astype(rng.choice(("f2", "f8", "i1", "?", "O", "U3", "M8[s]", "c8", "V3")))
    if kind == 1:
        return value.reshape(-1)[: rng.randrange(5)]
    if kind == 2:
        return value.tolist() if value.size < 50_000 else None
    if kind == 3:
        return np.array(odd_number(rng))
    return np.frombuffer(damaged_photo(rng)[1], dtype=np.uint8)


def _hostile(rng: Random) -> bytes:
    """Programs for the unpickler that no program writes."""
    number = rng.randrange(7)
    if number == 0:
        names = ("os\nsystem", "builtins\neval", "numpy\nload", "builtins\ngetattr", odd_text(rng))
        name = rng.choice(names).encode("utf-8", "replace")
        return b"c" + name + b"\n(S'touch ../hacked'\ntR."
    if number == 1:
        return b"(" * rng.choice((10, 10_000, 200_000)) + b"." + b"l" * 10
    if number == 2:
        depth = rng.choice((100, 5_000, 200_000))
        return b"\x80\x02" + b"]" * depth + b"a" * (depth - 1) + b"."
    if number == 3:  # a length that the file does not have
        return (
            b"\x80\x04"
            + rng.choice((b"\x8e", b"\x8d", b"\x96"))
            + (2 ** rng.choice((33, 40, 62))).to_bytes(8, "little")
        )
    if number == 4:  # each list holds the one before it twice
        return (
            b"\x80\x02]q\x00." if rng.random() < 0.1 else b"\x80\x02]" + b"q\x00h\x00h\x00\x86" * 3000 + b"."
        )
    if number == 5:
        return b"\x80\x02\x8b" + (2 ** rng.choice((20, 30))).to_bytes(4, "little") + b"\xff" * 100 + b"."
    frame = b"\x80\x04\x95" + (2**60).to_bytes(8, "little")
    return frame + b"r\xff\xff\xff\xff."


def _opcodes(data: bytes, rng: Random) -> bytes:
    """Operations left out, repeated, or in another order."""
    places = [place for _, _, place in pickletools.genops(data) if place is not None]
    pieces = [data[first:last] for first, last in zip(places, [*places[1:], len(data)], strict=True)]
    for _ in range(rng.randint(1, 3)):
        number = rng.randrange(len(pieces))
        action = rng.randrange(3)
        if action == 0:
            del pieces[number]
        elif action == 1:
            pieces.insert(rng.randrange(len(pieces)), pieces[number])
        else:
            pieces[number] = rng.choice(
                (b"]", b"}", b"N", b"(", b"K\x00", b"R", b"b", b"0", b"e", b"s", b"\x85")
            )
    return b"".join(pieces)


@cache
def _python_2() -> bytes:
    content = b"S'image_data'\n" + python_2_array(_PIXELS) + b"S'class_dict'\n"
    return b"\x80\x02(" + content + b"(S'n01'\n(I0\nI1\nI2\nI3\nldd."


def _pickled(content: Any, rng: Random) -> bytes:
    kind = rng.randrange(6)
    protocol = rng.randrange(6)
    if isinstance(rng, Spared):
        return pickle.dumps(content, protocol)
    if kind == 0:
        return _hostile(rng)
    if kind == 1:
        return pickle.dumps(_arrays(content, rng), protocol)
    if kind == 2 and isinstance(content, dict):
        changed = altered(content, rng)
        return pickle.dumps(changed, protocol)
    if kind == 3:
        return _opcodes(pickle.dumps(content, protocol), rng)
    if kind == 4:
        return damaged(_python_2(), rng)
    return damaged(pickle.dumps(content, protocol), rng)


@reader("pickles")
def pickles(room: Room, rng: Random) -> Case:
    kind, contents = _contents(rng)
    folder = room.work / "set"
    folder.mkdir()
    chosen = rng.choice(list(contents))
    for file, content in contents.items():
        (folder / file).write_bytes(pickle.dumps(content, 2))
    (folder / chosen).write_bytes(_pickled(contents[chosen], rng))
    skip = ["--skip-bad"] if rng.random() < 0.5 else []
    return command("data", "import", kind, folder, "--name", "fuzzed", "--size", 16, *skip, owns=FUZZED)
