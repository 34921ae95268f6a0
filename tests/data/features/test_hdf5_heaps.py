"""Heaps that would be read for ever."""

from pathlib import Path

import pytest

from fewset.core.errors import UserError
from fewset.data.features.array_files import open_arrays
from tests.helpers.feature_files import arrays, save_hdf5

pytestmark = pytest.mark.timeout(20)


def test_whole_heaps_are_read(tmp_path: Path) -> None:
    with open_arrays(save_hdf5(tmp_path / "rows", arrays())) as file:
        assert set(file.read("class_split")) == {"seen", "unseen"}


@pytest.mark.parametrize("size", [0, 8, 2**20, 2**64 - 16])
def test_an_object_that_leads_nowhere_is_refused(tmp_path: Path, size: int) -> None:
    """libhdf5 would go round such a heap for ever."""
    path = save_hdf5(tmp_path / "rows", arrays())
    data = bytearray(path.read_bytes())
    place = data.index(b"GCOL") + 16
    data[place : place + 2] = bytes(2)  # what is free
    data[place + 8 : place + 16] = size.to_bytes(8, "little")
    path.write_bytes(data)
    with open_arrays(path) as file, pytest.raises(UserError, match="do not lie one behind the other"):
        file.read("class_split")


def test_a_heap_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    path = save_hdf5(tmp_path / "rows", arrays())
    data = bytearray(path.read_bytes())
    place = data.index(b"GCOL") + 8
    data[place : place + 8] = (2**40).to_bytes(8, "little")
    path.write_bytes(data)
    with open_arrays(path) as file, pytest.raises(UserError, match="cut off"):
        file.read("class_split")
