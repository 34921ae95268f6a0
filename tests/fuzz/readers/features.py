"""Tables of features: NPZ, HDF5, the low-shot benchmark."""

import io
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np

from tests.fuzz.case import Case, data_import, reader
from tests.fuzz.room import Room
from tests.helpers.containers import spoil, spoiled
from tests.helpers.damage import Spared, altered, json_text, odd_number, odd_text
from tests.helpers.feature_files import ROWS, arrays, save_hdf5


def _odd_arrays(rng: Random) -> dict[str, Any]:
    """The arrays of a table of features, one of them of another shape or type."""
    content = {key: np.asarray(value) for key, value in arrays().items()}
    if isinstance(rng, Spared):
        return content
    odd = [
        lambda: np.arange(ROWS).astype(rng.choice(("f8", "f2", "i1", "U3", "S2", "c8", "?", "M8[s]"))),
        lambda: np.asarray(odd_number(rng) if rng.random() < 0.5 else odd_text(rng)[:300]),
        lambda: np.full((ROWS, 7), np.nan, dtype=np.float32),
        lambda: np.full(ROWS, 2**63 - 1),
        lambda: np.zeros((0, 7), dtype=np.float32),
        lambda: np.zeros((ROWS, 0), dtype=np.float32),
        lambda: np.array([odd_text(rng)[:300] for _ in range(rng.choice((ROWS, 5)))]),
        lambda: np.zeros((ROWS, 7, 1)),
        lambda: np.arange(ROWS)[:, None],
    ]
    key = rng.choice([*content, "count", "class_names", "split", "base_classes", "novel_classes_2"])
    content[key] = rng.choice(odd)()
    if rng.random() < 0.2:
        del content[rng.choice(list(content))]
    return content


@reader("NPZ files of features")
def npz(room: Room, rng: Random) -> Case:
    buffer = io.BytesIO()
    save = rng.choice((np.savez, np.savez_compressed))
    if rng.random() < 0.5:
        save(buffer, **_odd_arrays(rng))
        data = buffer.getvalue()
    else:
        # More bytes than zipfile reads at once, so that a wrong checksum comes to light behind the header.
        save(buffer, **arrays(features=np.random.default_rng(0).normal(size=(ROWS, 101)).astype(np.float32)))
        data = spoiled(buffer.getvalue(), rng)
    file = room.work / "rows.npz"
    file.write_bytes(data)
    return data_import("features", file)


def _odd_structure(path: Path, secret: Path, rng: Random) -> None:
    """Links, types and storages that a file of features need not have; one leads to another file."""
    with h5py.File(path, "a") as file:
        key = rng.choice(list(file))
        value = np.asarray(file[key][()])
        layout = h5py.VirtualLayout(shape=(61, 7), dtype="f4")
        layout[:] = h5py.VirtualSource(str(secret), "features", shape=(61, 7))
        types: list[Any] = [
            h5py.ref_dtype, h5py.vlen_dtype(np.float32), [("a", "f4")], "V7", "c8", "i8"
        ]  # fmt: skip
        checked = (
            {"chunks": True, "compression": "gzip", "fletcher32": True} if value.dtype.kind in "if" else {}
        )
        odd = [
            lambda: file.__setitem__(key, h5py.ExternalLink(str(secret), "features")),
            lambda: file.__setitem__(key, h5py.SoftLink(rng.choice((f"/{key}", "/nowhere", "/a/b")))),
            lambda: file.create_virtual_dataset(key, layout),
            lambda: file.create_dataset(key, (61, 7), "f4", external=[(str(secret), 0, 61 * 7 * 4)]),
            lambda: file.create_group(key),
            lambda: file.create_dataset(key, (61,), np.dtype(rng.choice(types))),
            lambda: file.create_dataset(key, (10**7, 10**6), "f4", chunks=(1000, 1000)),
            lambda: file.create_dataset(key, data=h5py.Empty("f4")),
            lambda: file.create_dataset(
                key, data=np.arange(61) if value.dtype.kind == "O" else value, **checked
            ),
        ]
        del file[key]
        rng.choice(odd)()
        file.attrs[_without_nul(odd_text(rng))[:200] or "x"] = 1


def _without_nul(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def _writable(value: Any) -> np.ndarray:
    """An array that h5py can write: no dates, no NUL or surrogates in texts."""
    array = np.asarray(value)
    if array.dtype.kind in "MO":  # dates; an integer of any length
        array = array.astype("i8" if array.dtype.kind == "M" else str)
    if array.dtype.kind != "U":
        return array
    texts = list(map(_without_nul, array.ravel()))
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


@reader("low-shot benchmark")
def low_shot(room: Room, rng: Random) -> Case:
    """Two HDF5 files and lists of classes in JSON."""
    folder = room.work / "benchmark"
    folder.mkdir()
    content = {"all_feats": arrays()["features"], "all_labels": arrays()["labels"]}
    files = [save_hdf5(folder / name, content) for name in ("train", "val")]
    lists: Any = {"base_classes": [0, 2], "novel_classes": [1, 3, 4]}
    lists |= {f"{key}_{number}": value for key, value in lists.items() for number in (1, 2)}
    if rng.random() < 0.6:
        lists = altered(lists, rng)
    else:
        spoil(rng.choice(files), rng)
    (folder / "label_idx.json").write_bytes(json_text(lists).encode("utf-8", "surrogatepass"))
    return data_import("features", folder)
