"""Readers of files that are made up for each input: pickles, tables of features, checkpoints."""

import io
import pickle
import pickletools
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
import torch

from tests.fuzz.case import Case, command, data_import, reader
from tests.fuzz.room import Room
from tests.helpers.containers import spoil, spoiled
from tests.helpers.damage import Spared, altered, damaged, odd_number, odd_text
from tests.helpers.feature_files import ROWS, arrays, save_hdf5
from tests.helpers.photos import photo_files
from tests.helpers.python_2 import python_2_array

# Pickles of image sets, also those of Python 2

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


def _with_odd_arrays(value: Any, rng: Random) -> Any:
    """The value with some arrays of another shape or type, or no arrays at all."""
    if isinstance(value, dict):
        return {key: _with_odd_arrays(item, rng) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_odd_arrays(item, rng) for item in value]
    if not isinstance(value, np.ndarray) or rng.random() < 0.5:
        return value
    odd: list[Callable[[], Any]] = [
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
    ways: list[Callable[[], bytes]] = [
        lambda: damaged(whole, rng),
        lambda: _hostile(rng),
        lambda: pickle.dumps(_with_odd_arrays(content, rng)),
        lambda: _odd_opcodes(whole, rng),
        lambda: damaged(_python_2(), rng),
        lambda: pickle.dumps(altered(content, rng)),
    ]
    return whole if isinstance(rng, Spared) else rng.choice(ways)()


@reader("pickles")
def pickles(room: Room, rng: Random) -> Case:
    kind, contents = _contents(rng)
    folder = room.work / "set"
    folder.mkdir()
    chosen = rng.choice(list(contents))
    for file, content in contents.items():
        (folder / file).write_bytes(_pickled(content, rng) if file == chosen else pickle.dumps(content, 2))
    return data_import(kind, folder, "--size", 16, *(["--skip-bad"] if rng.random() < 0.5 else []))


# Tables of features


def _odd_arrays(rng: Random) -> dict[str, Any]:
    """The arrays of a table of features, one of them of another shape or type."""
    content = {key: np.asarray(value) for key, value in arrays().items()}
    if isinstance(rng, Spared):
        return content
    odd: list[Callable[[], Any]] = [
        lambda: np.arange(ROWS).astype(rng.choice(("f8", "f2", "i1", "U3", "S2", "c8", "?", "M8[s]"))),
        lambda: np.asarray(odd_number(rng) if rng.random() < 0.5 else odd_text(rng)[:300]),
        lambda: np.full((ROWS, 7), np.nan, dtype=np.float32),
        lambda: np.full(ROWS, 2**63 - 1),
        lambda: np.zeros(rng.choice(((0, 7), (ROWS, 0), (ROWS, 7, 1), (ROWS, 1))), dtype=np.float32),
        lambda: np.array([odd_text(rng)[:300] for _ in range(rng.choice((ROWS, 5)))]),
    ]
    key = rng.choice([*content, "count", "class_names", "split", "base_classes", "novel_classes_2"])
    content[key] = rng.choice(odd)()
    if rng.random() < 0.2:
        del content[rng.choice(list(content))]
    return content


@reader("NPZ files of features")
def npz(room: Room, rng: Random) -> Case:
    file = room.work / "rows.npz"
    save = rng.choice((np.savez, np.savez_compressed))
    if rng.random() < 0.5:
        save(file, **_odd_arrays(rng))
    else:
        # More bytes than zipfile reads at once, so that a wrong checksum comes to light behind the header.
        save(file, **arrays(features=np.random.default_rng(0).normal(size=(ROWS, 101)).astype(np.float32)))
        spoil(file, rng)
    return data_import("features", file)


def _odd_structure(path: Path, secret: Path, rng: Random) -> None:
    """Links, types and storages that a file of features need not have; some lead to another file."""
    with h5py.File(path, "a") as file:
        key = rng.choice(list(file))
        layout = h5py.VirtualLayout(shape=(ROWS, 7), dtype="f4")
        layout[:] = h5py.VirtualSource(str(secret), "features", shape=(ROWS, 7))
        types: list[Any] = [h5py.ref_dtype, h5py.vlen_dtype(np.float32), [("a", "f4")], "V7", "c8", "i8"]
        odd: list[Callable[[], Any]] = [
            lambda: file.__setitem__(key, h5py.ExternalLink(str(secret), "features")),
            lambda: file.__setitem__(key, h5py.SoftLink(rng.choice((f"/{key}", "/nowhere", "/a/b")))),
            lambda: file.create_virtual_dataset(key, layout),
            lambda: file.create_dataset(key, (ROWS, 7), "f4", external=[(str(secret), 0, ROWS * 7 * 4)]),
            lambda: file.create_group(key),
            lambda: file.create_dataset(key, (ROWS,), np.dtype(rng.choice(types))),
            lambda: file.create_dataset(key, (10**7, 10**6), "f4", chunks=(1000, 1000)),
            lambda: file.create_dataset(key, data=h5py.Empty("f4")),
            lambda: file.create_dataset(key, data=np.arange(ROWS), chunks=True, compression="gzip"),
        ]
        del file[key]
        rng.choice(odd)()


def _writable(value: Any) -> np.ndarray:
    """An array that h5py can write: no dates, no NUL or surrogates in texts."""
    array = np.asarray(value)
    if array.dtype.kind in "MO":  # dates; an integer of any length
        array = array.astype("i8" if array.dtype.kind == "M" else str)
    if array.dtype.kind != "U":
        return array
    texts = [text.replace("\0", "").encode("utf-8", "replace").decode() for text in array.ravel()]
    return np.array(texts, dtype=f"U{max(map(len, texts), default=0) or 1}").reshape(array.shape)


@reader("HDF5 files of features")
def hdf5(room: Room, rng: Random) -> Case:
    kind = "whole" if isinstance(rng, Spared) else rng.choice(("arrays", "structure", "bytes"))
    content = _odd_arrays(rng) if kind == "arrays" else arrays()
    file = save_hdf5(room.work / "rows", {key: _writable(value) for key, value in content.items()})
    if kind == "structure":
        _odd_structure(file, save_hdf5(room.work / "secret", arrays()), rng)
    if kind == "bytes" or rng.random() < 0.2:
        spoil(file, rng)
    return data_import("features", file)


# Checkpoints of the authors


@cache
def _conv4() -> dict[str, Any]:
    from fewset.models.backbones.conv4 import Conv4

    torch.manual_seed(0)
    state = Conv4().state_dict()
    return {name.replace("blocks", "encoder.encoder"): value for name, value in state.items()}


def saved(content: Any, rng: Random) -> bytes:
    """As PyTorch writes it today, or as it did before version 1.6."""
    buffer = io.BytesIO()
    torch.save(content, buffer, _use_new_zipfile_serialization=rng.random() < 0.7)
    return buffer.getvalue()


def _odd_tensors(state: dict[str, Any], rng: Random) -> dict[str, Any]:
    """A state dict in which a tensor is of another kind, or no tensor at all."""
    name = rng.choice(list(state))
    value = state[name]
    odd: list[Callable[[], Any]] = [
        lambda: value.to(rng.choice((torch.double, torch.complex64, torch.bool))),
        lambda: value.float() * rng.choice((float("nan"), float("inf"))),
        lambda: value[:0] if value.dim() else value[None],
        lambda: value[None],
        lambda: value.float().to_sparse(),
        lambda: torch.quantize_per_tensor(value.float(), 0.1, 0, torch.qint8),
        lambda: torch.empty_like(value, device="meta"),
        lambda: value.tolist(),
        lambda: torch.nn.Parameter(value.float()),
        lambda: torch.zeros(1).expand(2**20),
    ]
    return {**state, rng.choice((name, name, odd_text(rng))): rng.choice(odd)()}


@reader("checkpoints of the authors")
def authors(room: Room, rng: Random) -> Case:
    state, whole = _conv4(), isinstance(rng, Spared)
    content: Any = rng.choice(({"params": state}, {"state_dict": state, "epoch": 3}, state))
    kind = "bytes" if whole else rng.choice(("bytes", "tensors", "values"))
    if kind == "tensors":
        content = {"params": _odd_tensors(state, rng)}
    elif kind == "values":
        content = altered(content, rng)
    data = saved(content, rng)
    file = room.work / "published.pth"
    file.write_bytes(spoiled(data, rng) if kind == "bytes" else data)
    method = "ProtoNet" if whole else rng.choice(("ProtoNet", "FEAT", "MatchNet"))
    return command("import-weights", file, "--method", method, "--backbone", "ConvNet", "--out", "imported")
