"""Files of features that reach for other files."""

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from fewset.data.features.array_files import open_arrays
from fewset.data.features.importer import import_features
from fewset.runtime.errors import UserError

SECRET = np.arange(21, dtype=np.float32).reshape(7, 3)


def external_link(file: h5py.File, secret: Path) -> None:
    file["features"] = h5py.ExternalLink(secret.name, "/features")


def virtual_dataset(file: h5py.File, secret: Path) -> None:
    layout = h5py.VirtualLayout(SECRET.shape, SECRET.dtype)
    layout[:] = h5py.VirtualSource(secret.name, "features", SECRET.shape)
    file.create_virtual_dataset("features", layout)


def external_storage(file: h5py.File, secret: Path) -> None:
    raw = secret.with_suffix(".raw")
    raw.write_bytes(SECRET.tobytes())
    file.create_dataset("features", SECRET.shape, SECRET.dtype, external=[(raw.name, 0, SECRET.nbytes)])


def link_through_a_link(file: h5py.File, secret: Path) -> None:
    file["elsewhere"] = h5py.ExternalLink(secret.name, "/")
    file["features"] = h5py.SoftLink("/elsewhere/features")


def circle(file: h5py.File, _: Path) -> None:
    file["features"] = h5py.SoftLink("/other")
    file["other"] = h5py.SoftLink("/features")


@pytest.mark.parametrize(
    "reach", [external_link, virtual_dataset, external_storage, link_through_a_link, circle]
)
def test_arrays_of_other_files_are_not_read(
    reach: Callable[[h5py.File, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # paths in HDF5 files may be relative to it
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as file:
        file["features"] = SECRET
    path = tmp_path / "table.h5"
    with h5py.File(path, "w") as file:
        file["labels"] = np.arange(7)
        reach(file, secret)
    with open_arrays(path) as arrays:
        assert arrays.keys == {"labels"}
    with pytest.raises(UserError, match="has no array 'features'"):
        import_features(path)
