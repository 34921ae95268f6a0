"""HDF5 files of features: their bytes, and links, types and storages that they need not have."""

import shutil
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np

from tests.fuzz.case import FUZZED, Case, command, reader
from tests.fuzz.readers.arrays import odd_arrays
from tests.fuzz.room import Room
from tests.helpers.damage import Spared, altered, damaged, json_text, odd_text
from tests.helpers.feature_files import arrays, save_hdf5


def _odd_structure(file: h5py.File, rng: Random, secret: Path) -> None:
    if isinstance(rng, Spared):
        return
    key = rng.choice(list(file))
    value = np.asarray(file[key][()])
    kind = rng.randrange(9)
    if kind == 0:
        del file[key]
        file[key] = h5py.ExternalLink(str(secret), "features")
    elif kind == 1:
        del file[key]
        file[key] = h5py.SoftLink(rng.choice((f"/{key}", "/nowhere", "/a/b")))
        file["a"] = h5py.SoftLink(f"/{key}")
    elif kind == 2:
        layout = h5py.VirtualLayout(shape=(61, 7), dtype="f4")
        layout[:] = h5py.VirtualSource(str(secret), "features", shape=(61, 7))
        del file[key]
        file.create_virtual_dataset(key, layout)
    elif kind == 3:
        del file[key]
        size = 61 * 7 * 4
        file.create_dataset(key, (61, 7), "f4", external=[(str(secret), 0, size)])
    elif kind == 4:
        del file[key]
        file.create_group(key)
    elif kind == 5:
        del file[key]
        odd: Any = rng.choice((h5py.ref_dtype, h5py.vlen_dtype(np.float32), [("a", "f4")], "V7", "c8", "i8"))
        file.create_dataset(key, (61,), np.dtype(odd))
    elif kind == 6:
        del file[key]
        file.create_dataset(key, (10**7, 10**6), "f4", chunks=(1000, 1000))
    elif kind == 7:
        del file[key]
        file.create_dataset(key, data=h5py.Empty("f4"))
    elif value.dtype.kind in "if":
        del file[key]
        file.create_dataset(key, data=value, chunks=True, compression="gzip", fletcher32=True)
    file.attrs[odd_text(rng).replace("\0", "").encode("utf-8", "replace").decode()[:200] or "x"] = 1


@reader("HDF5 files of features")
def hdf5(room: Room, rng: Random) -> Case:
    secret = room.work / "secret.hdf5"
    file = room.work / "rows.hdf5"
    kind = rng.randrange(3)
    content = {key: _writable(value) for key, value in (odd_arrays(rng) if kind == 0 else arrays()).items()}
    file = save_hdf5(file, content)
    if kind == 1:
        shutil.copyfile(file, secret)
        with h5py.File(file, "a") as opened:
            _odd_structure(opened, rng, secret)
    if kind == 2 or rng.random() < 0.2:
        file.write_bytes(damaged(file.read_bytes(), rng))
    return command("data", "import", "features", file, "--name", "fuzzed", owns=FUZZED)


def _writable(value: Any) -> np.ndarray:
    """What h5py can write: no dates, no NUL or surrogates in texts."""
    array = np.asarray(value)
    if array.dtype.kind == "M":
        return array.astype("i8")
    if array.dtype.kind == "O":  # a number of any length
        return array.astype(str)
    if array.dtype.kind == "U":
        texts = [text.replace("\0", "").encode("utf-8", "replace").decode() for text in array.ravel()]
        return np.array(texts, dtype=f"U{max(map(len, texts), default=0) or 1}").reshape(array.shape)
    return array


@reader("low-shot benchmark")
def low_shot(room: Room, rng: Random) -> Case:
    """Two HDF5 files and lists of classes in JSON."""
    folder = room.work / "benchmark"
    folder.mkdir()
    content = {key: arrays()[key] for key in ("features", "labels")}
    for name in ("train", "val"):
        save_hdf5(
            folder / name,
            {f"all_{key}".replace("features", "feats"): value for key, value in content.items()},
        )
    lists: Any = {"base_classes": [0, 2], "novel_classes": [1, 3, 4]}
    lists |= {f"{key}_{number}": value for key, value in lists.items() for number in (1, 2)}
    if rng.random() < 0.6:
        lists = altered(lists, rng)
    else:
        file = folder / rng.choice(("train.hdf5", "val.hdf5"))
        file.write_bytes(damaged(file.read_bytes(), rng))
    (folder / "label_idx.json").write_bytes(json_text(lists).encode("utf-8", "surrogatepass"))
    return command("data", "import", "features", folder, "--name", "fuzzed", owns=FUZZED)
