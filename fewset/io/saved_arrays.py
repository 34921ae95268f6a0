"""Tensors of a file that `torch.save` wrote before PyTorch 1.6, as NumPy arrays, without torch.

Only for a file whose digest is known: the places in it are taken as they are. No code in it is run.
"""

import pickle
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

_BEFORE = 3  # pickles: a magic number, the version of the format, the sizes of C's types
_COUNT = 8  # bytes before the values of a storage


def read_saved_arrays(path: Path) -> dict[str, np.ndarray]:
    """The state dict in a file."""
    with path.open("rb") as file:
        for _ in range(_BEFORE):
            pickle.load(file)  # noqa: S301
        reader = _Reader(file)
        state = dict(reader.load())
        for key in pickle.load(file):  # noqa: S301
            storage = reader.storages[key]
            file.seek(_COUNT, 1)
            file.readinto(storage.data)
    return state


class _Reader(pickle.Unpickler):
    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.storages: dict[str, np.ndarray] = {}

    def persistent_load(self, saved: Sequence[Any]) -> np.ndarray:
        """A storage, whose values come later in the file."""
        _, kind, key, _, count, _ = saved
        return self.storages.setdefault(key, np.empty(count, dtype=kind))

    def find_class(self, module: str, name: str) -> Any:
        return _KNOWN[f"{module}.{name}"]


def _tensor(storage: np.ndarray, offset: int, shape: Sequence[int], strides: Sequence[int], *_: Any) -> Any:
    steps = [storage.itemsize * stride for stride in strides]
    return np.lib.stride_tricks.as_strided(storage[offset:], shape, steps)


_KNOWN: dict[str, Any] = {
    "collections.OrderedDict": OrderedDict,
    "torch.FloatStorage": np.float32,
    "torch.LongStorage": np.int64,
    "torch._utils._rebuild_tensor_v2": _tensor,
}
