import builtins
import codecs
import io
import os
import pickle
import struct
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.io.pickles import read_pickle
from tests.helpers.python_2 import python_2_array

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


def read(data: bytes) -> Any:
    return read_pickle(io.BytesIO(data), "a.pkl")


def assert_same(got: Any, expected: Any) -> None:
    if isinstance(expected, np.ndarray):
        assert isinstance(got, np.ndarray)
        # NumPy, too, reads into the byte order of the machine from most protocols.
        assert got.dtype.newbyteorder("=") == expected.dtype.newbyteorder("=")
        np.testing.assert_array_equal(got, expected)
    elif isinstance(expected, dict):
        assert list(got) == list(expected)
        for key, value in expected.items():
            assert_same(got[key], value)
    elif isinstance(expected, list):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_same(one, other)
    else:
        assert got == expected
        assert type(got) is type(expected)


CONTENT = {
    "image_data": np.random.default_rng(0).integers(0, 256, (5, 7, 11, 3), dtype=np.uint8),
    "fortran": np.asfortranarray(np.arange(35).reshape(5, 7)),
    "transposed": np.arange(30, dtype=np.int16).reshape(2, 3, 5).transpose(1, 0, 2),
    "big-endian": np.arange(13, dtype=">i4"),
    "floats": np.linspace(0, 1, 17),
    "flags": np.array([True, False]),
    "names": np.array(["n01532829", "öl"]),
    "bytes": np.array([b"ab", b"c"]),
    "nothing": np.zeros((0, 3)),
    "no shape": np.array(7),
    "scalar": np.int64(-3),
    "list": [np.arange(n, dtype=np.uint8) for n in range(4)],
    "plain": [1, -2.5, None, True, "text", b"", b"\xff\x00", (1, 2), {3, 5}, frozenset({7})],
    "ordered": OrderedDict(b=1, a=2),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arrays_and_containers(protocol: int) -> None:
    data = pickle.dumps(CONTENT, protocol)
    assert_same(read(data), CONTENT)
    if protocol < 4:  # later ones have the length of each name
        assert b"numpy._core.multiarray" in data
        assert_same(read(data.replace(b"numpy._core.", b"numpy.core.")), CONTENT)  # as NumPy 1 writes it


@pytest.mark.parametrize("dtype", ["u1", "<i4", ">f8"])
def test_files_of_python_2(dtype: str) -> None:
    array = np.random.default_rng(0).integers(0, 256, (5, 7, 3)).astype(dtype)
    data = b"\x80\x02}(U\x0aimage_data" + python_2_array(array) + b"U\x05\xff\xfe\x00ab(I1\nI2\nlu."
    assert_same(read(data), {"image_data": array, "\xff\xfe\x00ab": [1, 2]})


# Attacks


class Call:
    """Pickles as a call of `function`; where the reader is not restricted, loading makes the call."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def attacks(target: Path) -> dict[str, Any]:
    code = f"open({str(target)!r}, 'w').close()"
    return {
        "system": Call(os.system, f"touch {target}"),
        "open": Call(open, str(target), "w"),
        "io.FileIO": Call(io.FileIO, str(target), "w"),
        "exec": Call(exec, code),
        "eval": Call(eval, code),
        "getattr": Call(getattr, target, "touch"),
        "tofile": Call(np.ndarray.tofile, np.zeros(3), str(target)),
        "savetxt": Call(np.savetxt, str(target), np.zeros(3)),
        "memmap": Call(np.memmap, str(target), "u1", "w+", 0, (3,)),
        "mkdir": Call(os.mkdir, str(target)),
        "module": Call(builtins.__import__, "antigravity"),
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", attacks(Path()))
def test_nothing_in_a_file_is_run(tmp_path: Path, name: str, protocol: int) -> None:
    target = tmp_path / "made"
    data = pickle.dumps({"image_data": np.zeros(3), "class_dict": attacks(target)[name]}, protocol)
    with pytest.raises(UserError, match=r"a.pkl asks for .*nothing was run"):
        read(data)
    assert not target.exists()


@pytest.mark.parametrize("encoding", ["idna", "zip", "rot13", "utf8"])
def test_no_other_encoding(encoding: str) -> None:
    with pytest.raises(UserError, match=f"asks for the encoding '{encoding}'"):
        read(pickle.dumps(Call(codecs.encode, "text", encoding), 2))


def array_of(code: bytes, flags: int, data: bytes, shape: bytes = b"I1\n") -> bytes:
    state = b"(I3\nS'|'\nNNNI-1\nI-1\nI%d\ntb" % flags
    kind = b"cnumpy\ndtype\n(S'" + code + b"'\nI0\nI1\ntR" + state
    head = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n("
    return b"\x80\x02" + head + shape + b"t" + kind + b"I00\nT" + struct.pack("<i", len(data)) + data + b"tb."


@pytest.mark.parametrize(
    "data",
    [
        array_of(b"O8", 0, b"\x41" * 8),  # bytes as a pointer: NumPy itself would follow it
        array_of(b"u1", 0, b"\x41" * 8, shape=b"I9\n"),
        array_of(b"u1", 0, b"", shape=b"I-1\nI0\n"),
        array_of(b"u1", 0, b"\x41" * 4, shape=b"I-2\nI-2\n"),
        array_of(b"V8", 0, b"\x41" * 8),
        array_of(b"i4,O8", 0, b"\x41" * 12),
        b"\x80\x02cnumpy.core.numeric\n_frombuffer\n(T\x08\0\0\0AAAAAAAAcnumpy\ndtype\n(S'O8'\ntR(I1\ntS'C'\ntR.",
        b"\x80\x02cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\n(S'O8'\ntRT\x08\0\0\0AAAAAAAAtR.",
    ],
)
def test_forged_arrays(data: bytes) -> None:
    with pytest.raises(UserError, match=r"cannot be read|asks for an array of type"):
        read(data)


def test_the_flags_of_a_type_are_ignored() -> None:
    got = read(array_of(b"u1", 63, b"\x41" * 8, shape=b"I8\n"))
    assert got.dtype.flags == np.dtype("u1").flags
    assert_same(got, np.full(8, 0x41, dtype=np.uint8))


def test_a_file_cannot_change_the_reader() -> None:
    read(b"\x80\x02cnumpy\ndtype\n(N}(U\x0c__defaults__NU\x0c__setstate__Nutb.")
    assert_same(read(pickle.dumps(CONTENT)), CONTENT)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_every_cut_file_is_an_error(protocol: int) -> None:
    data = pickle.dumps({"a": np.arange(5, dtype=np.uint8), "b": ["c", 1.5]}, protocol)
    for length in range(len(data)):
        with pytest.raises(UserError, match=r"a.pkl (cannot be read|asks for)"):
            read(data[:length])


@pytest.mark.parametrize(
    "data",
    [
        b"<html>404 not found</html>",
        # A length that the file does not have takes no memory.
        pickle.PROTO + b"\x04" + pickle.BINBYTES8 + struct.pack("<Q", 2**40) + b"short" + pickle.STOP,
    ],
)
def test_no_pickle(data: bytes) -> None:
    with pytest.raises(UserError, match="cannot be read as a pickle file"):
        read(data)
