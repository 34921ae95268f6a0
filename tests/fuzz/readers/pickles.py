"""The pickles in which miniImageNet and tieredImageNet are passed on, also those of Python 2."""

import pickle
import pickletools
from functools import cache
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.case import Case, data_import, reader
from tests.fuzz.room import Room
from tests.helpers.containers import spoiled
from tests.helpers.damage import Spared, altered, damaged, odd_number, odd_text
from tests.helpers.photos import photo_files
from tests.helpers.python_2 import python_2_array

_PIXELS = np.arange(4 * 84 * 84 * 3, dtype=np.uint8).reshape(4, 84, 84, 3)


def _contents(rng: Random) -> tuple[str, dict[str, Any]]:
    """The kind of set and its files; pixels are few, so that most bytes are structure."""
    kind = rng.randrange(3)
    png = np.frombuffer(photo_files()["png"], dtype=np.uint8)[:, None].copy()
    labels, files = [0, 1, 0, 1], {}
    for split, part in {"train": "train_phase_train", "val": "val", "test": "test"}.items():
        one, two = f"{split} a", f"{split} b"  # no class is in two splits
        cached: Any = {"image_data": _PIXELS, "class_dict": {one: [0, 2], two: [1, 3]}}
        category: Any = {"data": _PIXELS, "labels": labels, "catname2label": {one: 0, two: 1}}
        named: Any = {"label_specific": np.array(labels), "label_specific_str": [one, two]}
        files |= [
            {f"mini-imagenet-cache-{split}.pkl": cached},
            {f"miniImageNet_category_split_{part}.pickle": category},
            {f"{split}_images_png.pkl": [png] * 4, f"{split}_labels.pkl": named},
        ][kind]
    return "miniimagenet" if kind < 2 else "tieredimagenet", files


def _odd_arrays(value: Any, rng: Random) -> Any:
    """The value with some arrays of another shape or type, or no arrays at all."""
    if isinstance(value, dict):
        return {key: _odd_arrays(item, rng) for key, item in value.items()}
    if isinstance(value, list):
        return [_odd_arrays(item, rng) for item in value]
    if not isinstance(value, np.ndarray) or rng.random() < 0.5:
        return value
    odd = [
        lambda: value.astype(rng.choice(("f2", "f8", "i1", "?", "O", "U3", "M8[s]", "c8", "V3"))),
        lambda: value.reshape(-1)[: rng.randrange(5)],
        lambda: value.tolist() if value.size < 50_000 else None,
        lambda: np.array(odd_number(rng)),
        lambda: np.frombuffer(spoiled(rng.choice(list(photo_files().values())), rng), dtype=np.uint8),
    ]
    return rng.choice(odd)()


def _hostile(rng: Random) -> bytes:
    """Programs for the unpickler that no honest program writes."""
    names = ("os\nsystem", "builtins\neval", "numpy\nload", "builtins\ngetattr", odd_text(rng))
    called = rng.choice(names).encode("utf-8", "replace")
    depth, length = rng.choice((100, 5_000, 200_000)), 2 ** rng.choice((33, 40, 62))
    programs = [
        b"c" + called + b"\n(S'touch ../hacked'\ntR.",
        b"(" * depth + b"." + b"l" * 10,
        b"\x80\x02" + b"]" * depth + b"a" * (depth - 1) + b".",
        b"\x80\x04" + rng.choice((b"\x8e", b"\x8d", b"\x96")) + length.to_bytes(8, "little"),  # claimed bytes
        b"\x80\x02]" + b"q\x00h\x00h\x00\x86" * 3000 + b".",  # each list holds the one before it twice
        b"\x80\x02]q\x00.",
        b"\x80\x02\x8b" + (2 ** rng.choice((20, 30))).to_bytes(4, "little") + b"\xff" * 100 + b".",
        b"\x80\x04\x95" + (2**60).to_bytes(8, "little") + b"r\xff\xff\xff\xff.",
    ]
    return rng.choice(programs)


def _odd_opcodes(data: bytes, rng: Random) -> bytes:
    """Operations left out, repeated, or replaced."""
    places = [place for _, _, place in pickletools.genops(data) if place is not None]
    pieces = [data[first:last] for first, last in zip(places, [*places[1:], len(data)], strict=True)]
    others = b"]", b"}", b"N", b"(", b"K\x00", b"R", b"b", b"0", b"e", b"s", b"\x85"
    for _ in range(rng.randint(1, 3)):
        place, piece = rng.randrange(len(pieces)), rng.choice(pieces)
        pieces[place : place + rng.randrange(2)] = rng.choice(([], [piece], [rng.choice(others)]))
    return b"".join(pieces)


@cache
def _python_2() -> bytes:
    content = b"S'image_data'\n" + python_2_array(_PIXELS) + b"S'class_dict'\n"
    return b"\x80\x02(" + content + b"(S'n01'\n(I0\nI1\nI2\nI3\nldd."


def _pickled(content: Any, rng: Random) -> bytes:
    whole = pickle.dumps(content, rng.randrange(6))
    if isinstance(rng, Spared):
        return whole
    ways = [
        lambda: _hostile(rng),
        lambda: pickle.dumps(_odd_arrays(content, rng)),
        lambda: _odd_opcodes(whole, rng),
        lambda: damaged(_python_2(), rng),
        lambda: damaged(whole, rng),
        lambda: pickle.dumps(altered(content, rng)) if isinstance(content, dict) else damaged(whole, rng),
    ]
    return rng.choice(ways)()


@reader("pickles")
def pickles(room: Room, rng: Random) -> Case:
    kind, contents = _contents(rng)
    folder = room.work / "set"
    folder.mkdir()
    chosen = rng.choice(list(contents))
    for file, content in contents.items():
        (folder / file).write_bytes(pickle.dumps(content, 2))
    (folder / chosen).write_bytes(_pickled(contents[chosen], rng))
    return data_import(kind, folder, "--size", 16, *(["--skip-bad"] if rng.random() < 0.5 else []))
