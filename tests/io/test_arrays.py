"""Arrays whose header claims more than there is."""

import io
from typing import Any

import numpy as np
import pytest

from fewset.io.arrays import read_array


def stored(array: np.ndarray) -> io.BytesIO:
    file = io.BytesIO()
    np.save(file, array)
    file.seek(0)
    return file


def claimed(shape: tuple[int, ...], descr: str = "<f8", content: bytes = bytes(80)) -> io.BytesIO:
    file = io.BytesIO()
    np.lib.format.write_array_header_2_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    file.write(content)
    file.seek(0)
    return file


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
    got = read_array(stored(array))
    assert got.dtype == array.dtype
    np.testing.assert_array_equal(got, array)


@pytest.mark.parametrize(
    ("shape", "descr", "why"),
    [
        ((10**13,), "<f8", "more than the limit"),
        ((2**31, 2**31, 2**31), "<f8", "more than the limit"),
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
    text: Any = header.encode()
    file = io.BytesIO(np.lib.format.magic(1, 0) + len(text).to_bytes(2, "little") + text)
    with pytest.raises(ValueError, match=r"."):
        read_array(file)
