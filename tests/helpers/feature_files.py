"""Files of features, in the layout that is simplest and in each format."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

ROWS, DIM, CLASSES = 61, 7, 5
UNSEEN = [False, True, False, True, True]

Save = Callable[[Path, dict[str, Any]], Path]


def save_npz(path: Path, content: dict[str, Any]) -> Path:
    path = path.with_suffix(".npz")
    np.savez(path, **content)
    return path


def save_compressed(path: Path, content: dict[str, Any]) -> Path:
    path = path.with_suffix(".npz")
    np.savez_compressed(path, **content)
    return path


def save_hdf5(path: Path, content: dict[str, Any]) -> Path:
    path = path.with_suffix(".hdf5")
    with h5py.File(path, "w") as file:
        for key, value in content.items():
            value = np.asarray(value)
            file[key] = value.astype(h5py.string_dtype()) if value.dtype.kind == "U" else value
    return path


def arrays(**changes: Any) -> dict[str, Any]:
    """The plain layout; a change to None leaves a key out."""
    generator = np.random.default_rng(0)
    labels = generator.permutation(np.arange(ROWS) % CLASSES)
    plain = {
        "features": generator.normal(size=(ROWS, DIM)).astype(np.float32),
        "labels": labels,
        "class_split": ["unseen" if flag else "seen" for flag in UNSEEN],
        "role": np.where(generator.random(ROWS) < 0.4, "test", "train"),
    }
    return {key: value for key, value in {**plain, **changes}.items() if value is not None}
