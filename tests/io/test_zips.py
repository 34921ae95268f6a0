"""Zip files that claim one thing and hold another."""

import struct
import zipfile
from pathlib import Path

import pytest

from fewset.io.zips import leads_out, open_zip, read_member


def packed(path: Path, how: int = zipfile.ZIP_DEFLATED, size: int = 2**20) -> Path:
    with zipfile.ZipFile(path, "w", how) as archive:
        archive.writestr("zeros", bytes(size))
    return path


def claim(path: Path, size: int) -> None:
    """Make the list of a zip file claim another size of its member."""
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, data.rindex(b"PK\1\2") + 24, size)
    path.write_bytes(data)


@pytest.mark.parametrize("size", [10, 2**20 - 1, 2**20 + 1])
def test_a_member_that_lies_about_its_size_is_refused(size: int, tmp_path: Path) -> None:
    path = packed(tmp_path / "lie.zip")
    claim(path, size)
    with open_zip(path) as archive, pytest.raises(OSError, match=r"cannot be read|more than"):
        read_member(archive, "zeros", 2**28)


def test_a_member_that_claims_too_much_is_not_read(tmp_path: Path) -> None:
    with open_zip(packed(tmp_path / "bomb.zip")) as archive:
        assert read_member(archive, "zeros", 2**20) == bytes(2**20)
        with pytest.raises(OSError, match="file of 1048576 bytes, more than the limit of 1048575"):
            read_member(archive, "zeros", 2**20 - 1)


@pytest.mark.parametrize("how", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_may_grow_without_bounds_is_not_unpacked(how: int, tmp_path: Path) -> None:
    with (
        open_zip(packed(tmp_path / "bomb.zip", how)) as archive,
        pytest.raises(OSError, match="pack it anew, deflated or stored"),
    ):
        read_member(archive, "zeros", 2**28)


@pytest.mark.parametrize("version", [64, 255])
def test_a_version_that_nobody_knows_is_an_error_like_others(version: int, tmp_path: Path) -> None:
    path = packed(tmp_path / "new.zip")
    data = bytearray(path.read_bytes())
    data[data.rindex(b"PK\1\2") + 6] = version
    path.write_bytes(data)
    with pytest.raises(OSError, match="not a complete zip file"):
        open_zip(path)


@pytest.mark.parametrize("name", ["../a.jpg", "a/../../b.jpg", "/a.jpg", "C:\\a.jpg", "..\\a.jpg", "\\a.jpg"])
def test_names_that_lead_out(name: str) -> None:
    assert leads_out(name)
    assert not leads_out(f"inside{name}".replace("..", "dots"))
