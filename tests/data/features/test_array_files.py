"""Files of features that reach for other files."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.data.features.array_files import open_arrays
from fewset.data.features.importer import import_features

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


@pytest.mark.parametrize("key", ["features", "labels", "role"])
def test_an_array_that_claims_what_the_file_does_not_hold_is_refused(key: str, tmp_path: Path) -> None:
    """Of an array in chunks only those that were written are there: it may claim terabytes."""
    path = tmp_path / "table.h5"
    with h5py.File(path, "w") as file:
        for name, value in {"features": SECRET, "labels": np.arange(7), "role": np.zeros(7)}.items():
            if name == key:
                file.create_dataset(name, (10**7, 10**6), "f4", chunks=(1000, 1000))
            else:
                file[name] = value
    with pytest.raises(
        UserError, match=rf"'{key}'.* claims 40,000,000,000,000 bytes, the file has 0 of them"
    ):
        import_features(path)


def test_zeros_that_are_packed_well_are_read(tmp_path: Path) -> None:
    path = tmp_path / "table.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("features", data=np.zeros((10**5, 7)), compression="gzip", compression_opts=9)
    with open_arrays(path) as arrays:
        assert arrays.describe("features")[0] == (10**5, 7)


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
def test_a_small_file_of_many_zeros_is_refused(
    name: str, save: Callable[[Path, str, np.ndarray], None], tmp_path: Path
) -> None:
    """Sorting its rows would take many times the memory that they claim."""
    rows = 4 * 10**6
    save(tmp_path / name, "features", np.zeros((rows, 1), dtype=np.int8))
    save(tmp_path / name, "labels", np.zeros(rows, dtype=np.int64))
    with pytest.raises(UserError, match=r"'labels' cannot be read .*claims 3\d,\d{3},\d{3}; if that is"):
        import_features(tmp_path / name)


def test_a_piece_far_larger_than_its_array_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "file.h5", "w") as file:
        file.create_dataset(
            "features", data=SECRET, maxshape=(7, None), chunks=(7, 2**24), compression="gzip"
        )
    with open_arrays(tmp_path / "file.h5") as arrays, pytest.raises(UserError, match="in pieces of"):
        arrays.describe("features")


def test_names_of_an_enumeration_are_not_taken_for_their_numbers(tmp_path: Path) -> None:
    kind = h5py.enum_dtype({"unseen": 0, "seen": 1})
    with h5py.File(tmp_path / "file.h5", "w") as file:
        file.create_dataset("split", data=np.array([0, 1], dtype=np.int64), dtype=kind)
    with (
        open_arrays(tmp_path / "file.h5") as arrays,
        pytest.raises(UserError, match="an enumeration"),
    ):
        arrays.read("split")
