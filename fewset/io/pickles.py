"""Pickle files, read without running anything in them.

A pickle is a program that may call any function by name. This reader has a list of the few functions that
make NumPy arrays and plain containers, and rejects every other name. Files of Python 2 and 3, of NumPy 1
and 2 are read alike.
"""

import pickle
import re
from collections import OrderedDict
from collections.abc import Callable
from io import BufferedIOBase
from math import prod
from typing import IO, Any

import numpy as np

from fewset.core.errors import UserError


def read_pickle(file: BufferedIOBase | IO[bytes], where: str) -> Any:
    """The arrays, containers, strings and numbers in a pickle file; `where` names it in errors."""
    try:
        return _Reader(file, encoding="latin1").load()  # Python 2 does not record the encoding of strings
    except _NotAllowed as error:
        raise UserError(
            f"{where} asks for {error}, but only arrays and plain containers are read from a pickle file, "
            "since it could run any program; nothing was run. Get the file from another place"
        ) from error
    except Exception as error:  # a damaged pickle raises almost anything
        raise UserError(f"{where} cannot be read as a pickle file: {error!r}") from error


class _NotAllowed(Exception):  # noqa: N818 - the text is what is not allowed
    pass


# The unpickler written in Python, since the one in C takes any memory that a damaged file claims.
_PythonUnpickler: Any = pickle._Unpickler


class _Reader(_PythonUnpickler):  # type: ignore[misc]
    def find_class(self, module: str, name: str) -> Any:
        # The module names of NumPy 1 and of Python 2.
        place = module.replace("numpy.core.", "numpy._core.").replace("__builtin__", "builtins")
        if f"{place}.{name}" == "numpy.ndarray":
            return name  # an argument of `_reconstruct`, which needs no class
        function = _ALLOWED.get(f"{place}.{name}")
        if function is None:
            raise _NotAllowed(f"{module}.{name}")
        # A new function each time, because a pickle may set attributes of the objects it receives.
        return lambda *arguments: function(*arguments)


class _DType:
    """Stands for a dtype. NumPy trusts the flags in a file, and with wrong ones reads bytes as pointers."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        code = code.decode() if isinstance(code, bytes) else code
        if not re.fullmatch(r"[biufSU]\d+", code):
            raise _NotAllowed(f"an array of type {code!r}")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype = self.dtype.newbyteorder(state[1])


class _Array(np.ndarray):
    """An array that takes its content from a file only if type, shape and number of bytes agree."""

    __slots__ = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        version, shape, kind, fortran, data = state
        data = _bytes(data)
        if len(data) != prod(shape) * kind.dtype.itemsize or min(shape, default=0) < 0:
            raise ValueError(f"an array of shape {shape} and type {kind.dtype} has {len(data)} bytes")
        super().__setstate__((version, shape, kind.dtype, fortran, data))


def _from_buffer(
    data: bytes | bytearray, kind: _DType, shape: tuple[int, ...], order: Any, axes: Any = None
) -> np.ndarray:
    array = np.frombuffer(data, dtype=kind.dtype)
    return array.reshape(shape, order=order) if axes is None else array.reshape(shape).transpose(axes)


def _bytes(data: str | bytes) -> bytes:
    return data.encode("latin1") if isinstance(data, str) else bytes(data)


def _encode(text: str, encoding: str) -> bytes:
    """Bytes as Python 3 writes them for Python 2. Other encodings are modules, imported by name."""
    if encoding != "latin1":
        raise _NotAllowed(f"the encoding {encoding!r}")
    return text.encode(encoding)


_ALLOWED: dict[str, Callable[..., Any]] = {
    "numpy._core.multiarray._reconstruct": lambda *_: _Array((0,), np.uint8),
    "numpy._core.numeric._frombuffer": _from_buffer,
    "numpy._core.multiarray.scalar": lambda kind, data: np.frombuffer(_bytes(data), kind.dtype, count=1)[0],
    "numpy.dtype": _DType,
    "_codecs.encode": _encode,
    "builtins.bytes": lambda: b"",
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "collections.OrderedDict": OrderedDict,
}
