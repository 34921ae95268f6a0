"""Arrays and zip files that claim one thing and hold another."""

import io
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fewset.io.arrays import read_array
from fewset.io.reading import Damaged
from fewset.io.zips import leads_out, open_zip, read_member


def claimed(shape: tuple[int, ...], descr: str = "<f8") -> io.BytesIO:
    """80 bytes behind a header that claims this array."""
    file = io.BytesIO()
    np.lib.format.write_array_header_2_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return io.BytesIO(file.getvalue() + bytes(80))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(35.0).reshape(5, 7),
        np.asfortranarray(np.arange(35).reshape(5, 7)),
        np.array(["a", "bc"]),
        np.zeros(0),
    ],
)
def test_arrays_are_as_they_were_stored(array: np.ndarray) -> None:
    file = io.BytesIO()
    np.save(file, array)
    file.seek(0)
    np.testing.assert_array_equal(read_array(file), array, strict=True)


@pytest.mark.parametrize(
    ("shape", "descr", "why"),
    [
        ((10**13,), "<f8", "limit"),
        ((2**31, 2**31, 2**31), "<f8", "limit"),
        ((11,), "<f8", "ends after 80 of 88 bytes"),
        ((-3, -3), "<f8", "shape"),
        ((3,), "|O", "type object"),
    ],
)
def test_claims_take_no_memory(shape: tuple[int, ...], descr: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_array(claimed(shape, descr))


@pytest.mark.parametrize("header", ["(" * 5000, "{'descr': [", "lambda: 0", "{'descr': 3}", ""])
def test_a_header_may_be_anything(header: str) -> None:
    text = header.encode()
    file = io.BytesIO(np.lib.format.magic(1, 0) + len(text).to_bytes(2, "little") + text)
    with pytest.raises(ValueError, match=r"."):
        read_array(file)


def packed(path: Path, how: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", how) as archive:
        archive.writestr("zeros", bytes(2**20))
    return path


def patch_list(path: Path, format: str, offset: int, value: int) -> None:
    """Change a field of the only entry in the list of a zip file."""
    data = bytearray(path.read_bytes())
    struct.pack_into(format, data, data.rindex(b"PK\1\2") + offset, value)
    path.write_bytes(data)


@pytest.mark.parametrize("size", [10, 2**20 - 1, 2**20 + 1])
def test_a_member_that_lies_about_its_size_is_rejected(size: int, tmp_path: Path) -> None:
    path = packed(tmp_path / "lie.zip")
    patch_list(path, "<I", 24, size)
    with open_zip(path) as archive, pytest.raises(Damaged, match=r"lie\.zip/zeros "):
        read_member(archive, "zeros", 2**28)


def test_a_member_that_claims_too_much_is_not_read(tmp_path: Path) -> None:
    with open_zip(packed(tmp_path / "bomb.zip")) as archive:
        assert read_member(archive, "zeros", 2**20) == bytes(2**20)
        with pytest.raises(Damaged, match="limit of 1048575"):
            read_member(archive, "zeros", 2**20 - 1)


@pytest.mark.parametrize("how", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compression_without_bounds_is_not_unpacked(how: int, tmp_path: Path) -> None:
    with (
        open_zip(packed(tmp_path / "bomb.zip", how)) as archive,
        pytest.raises(Damaged, match="pack it again"),
    ):
        read_member(archive, "zeros", 2**28)


def test_an_unknown_version_is_damage(tmp_path: Path) -> None:
    path = packed(tmp_path / "new.zip")
    patch_list(path, "<B", 6, 255)
    with pytest.raises(Damaged, match=r"new\.zip cannot be read"):
        open_zip(path)


@pytest.mark.parametrize("name", ["../a.jpg", "a/../../b.jpg", "/a.jpg", "C:\\a.jpg", "..\\a.jpg", "\\a.jpg"])
def test_names_that_lead_out(name: str) -> None:
    assert leads_out(name)
    assert not leads_out(f"inside{name}".replace("..", "dots"))
