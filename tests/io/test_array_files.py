"""Files of features that reach for other files."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.data.features.importer import import_features
from fewset.io.array_files import open_arrays
from tests.helpers.feature_files import arrays, save_hdf5

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
    with open_arrays(path) as opened:
        assert opened.keys == {"labels"}
    with pytest.raises(UserError, match="has no array 'features'"):
        import_features(path)


@pytest.mark.parametrize("key", ["features", "labels", "role"])
def test_an_array_that_claims_more_than_the_file_holds(key: str, tmp_path: Path) -> None:
    """An array in chunks has only those that were written; it may claim terabytes."""
    path = tmp_path / "table.h5"
    with h5py.File(path, "w") as file:
        for name, value in {"features": SECRET, "labels": np.arange(7), "role": np.zeros(7)}.items():
            if name == key:
                file.create_dataset(name, (10**7, 10**6), "f4", chunks=(1000, 1000))
            else:
                file[name] = value
    with pytest.raises(UserError, match=f"'{key}'.* claims 40,000,000,000,000"):
        import_features(path)


def test_zeros_that_are_packed_well_are_read(tmp_path: Path) -> None:
    path = tmp_path / "table.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("features", data=np.zeros((10**5, 7)), compression="gzip", compression_opts=9)
    with open_arrays(path) as opened:
        assert opened.describe("features")[0] == (10**5, 7)


def save_zeros_npz(path: Path, key: str, zeros: np.ndarray) -> None:
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open(f"{key}.npy", "w") as member,
    ):
        np.lib.format.write_array(member, zeros)


def save_zeros_hdf5(path: Path, key: str, zeros: np.ndarray) -> None:
    with h5py.File(path, "a") as file:
        file.create_dataset(key, data=zeros, compression="gzip")


@pytest.mark.parametrize(
    ("name", "save"), [("table.npz", save_zeros_npz), ("table.h5", save_zeros_hdf5)], ids=["NPZ", "HDF5"]
)
def test_a_small_file_of_many_zeros(
    name: str, save: Callable[[Path, str, np.ndarray], None], tmp_path: Path
) -> None:
    """Sorting its rows would take many times the memory that they claim."""
    rows = 4 * 10**6
    save(tmp_path / name, "features", np.zeros((rows, 1), dtype=np.int8))
    save(tmp_path / name, "labels", np.zeros(rows, dtype=np.int64))
    with pytest.raises(UserError, match=r"'labels' cannot be read .*claims"):
        import_features(tmp_path / name)


def test_a_chunk_far_larger_than_its_array(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "file.h5", "w") as file:
        file.create_dataset(
            "features", data=SECRET, maxshape=(7, None), chunks=(7, 2**24), compression="gzip"
        )
    with open_arrays(tmp_path / "file.h5") as opened, pytest.raises(UserError, match="in chunks of"):
        opened.describe("features")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("size", [0, 8, 2**20, 2**64 - 16, None])
def test_a_heap_whose_objects_lead_nowhere(tmp_path: Path, size: int | None) -> None:
    """libhdf5 would follow the objects of such a heap without end. None: the heap itself is cut off."""
    path = save_hdf5(tmp_path / "rows", arrays())
    with open_arrays(path) as opened:
        assert set(opened.read("class_split")) == {"seen", "unseen"}
    data = bytearray(path.read_bytes())
    place = data.index(b"GCOL")
    if size is None:
        data[place + 8 : place + 16] = (2**40).to_bytes(8, "little")
    else:
        data[place + 16 : place + 18] = bytes(2)  # marks free space
        data[place + 24 : place + 32] = size.to_bytes(8, "little")
    path.write_bytes(data)
    with open_arrays(path) as opened, pytest.raises(UserError, match="a heap in it is damaged"):
        opened.read("class_split")
