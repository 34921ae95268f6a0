"""Pickle files read without running anything that is in them.

A pickle is a program: it may call any function by name. Here it may call none but the few below, which make
NumPy arrays and plain containers. Files of Python 2 and 3, of NumPy 1 and 2 are read alike.
"""

import pickle
import re
from collections import OrderedDict
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from fewset.data.images.sources import Source
from fewset.runtime.errors import UserError


def read_pickle(source: Source, file: str) -> Any:
    """What a pickle file holds, if that is arrays, containers, strings and numbers; else it is refused."""
    try:
        with source.open(file) as opened:
            return _Reader(opened, encoding="latin1").load()  # strings of Python 2 have no encoding
    except _Refused as error:
        raise UserError(
            f"{file} in {source.path} asks for {error}, and only arrays and plain containers are read from a "
            "pickle file, since it could run any program; nothing was run. Get the file from another place"
        ) from error
    # A damaged file makes the reader raise almost anything.
    except Exception as error:
        raise UserError(f"{file} in {source.path} cannot be read as a pickle file: {error!r}") from error


def read_dictionary(source: Source, file: str, *keys: str) -> dict[str, Any]:
    """The dictionary in a pickle file, which must have these keys."""
    content = read_pickle(source, file)
    if not isinstance(content, dict):
        raise UserError(f"{file} in {source.path} holds a {type(content).__name__}, expected a dictionary")
    for key in keys:
        if key not in content:
            raise UserError(
                f"{file} in {source.path} has no {key!r}; it has {', '.join(sorted(map(str, content)))}"
            )
    return content


class _Refused(Exception):  # noqa: N818 - the text is the name of what was refused
    pass


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        # The names of NumPy 1 and of Python 2.
        place = module.replace("numpy.core.", "numpy._core.").replace("__builtin__", "builtins")
        if f"{place}.{name}" == "numpy.ndarray":
            return name  # only ever handed on to `_reconstruct`, which needs no class
        function = _ADMITTED.get(f"{place}.{name}")
        if function is None:
            raise _Refused(f"{module}.{name}")
        # A function of its own: a pickle may set the attributes of what it gets here.
        return lambda *arguments: function(*arguments)


class _DType:
    """In place of a dtype: NumPy believes the flags in a file, and with wrong ones its bytes are pointers."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        code = code.decode() if isinstance(code, bytes) else code
        if not re.fullmatch(r"[biufcSUO]\d+", code):
            raise _Refused(f"an array of type {code!r}")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.dtype = self.dtype.newbyteorder(state[1])


class _Array(np.ndarray):
    """An array that takes its content from a file only if type, shape and number of bytes agree."""

    __slots__ = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        version, shape, kind, fortran, data = state
        dtype = kind.dtype
        data = data.encode("latin1") if isinstance(data, str) else data
        expected = list if dtype.hasobject else bytes
        length = prod(shape) * (1 if dtype.hasobject else dtype.itemsize)
        if type(data) is not expected or len(data) != length or min(shape, default=0) < 0:
            raise ValueError(f"the content of an array of shape {shape} and type {dtype} does not fit it")
        super().__setstate__((version, shape, dtype, fortran, data))


def _reconstruct(*_: object) -> _Array:
    return _Array((0,), np.uint8)


def _from_buffer(
    data: bytes | bytearray, kind: _DType, shape: tuple[int, ...], order: Any, axes: Any = None
) -> np.ndarray:
    array = np.frombuffer(data, dtype=kind.dtype)
    return array.reshape(shape, order=order) if axes is None else array.reshape(shape).transpose(axes)


def _scalar(kind: _DType, data: str | bytes) -> Any:
    data = data.encode("latin1") if isinstance(data, str) else data
    return np.frombuffer(data, dtype=kind.dtype, count=1)[0]


def _encode(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes for Python 2; other encodings are modules that would be imported by name."""
    if encoding != "latin1":
        raise _Refused(f"the encoding {encoding!r}")
    return text.encode(encoding)


_ADMITTED: dict[str, Callable[..., Any]] = {
    "numpy._core.multiarray._reconstruct": _reconstruct,
    "numpy._core.numeric._frombuffer": _from_buffer,
    "numpy._core.multiarray.scalar": _scalar,
    "numpy.dtype": _DType,
    "_codecs.encode": _encode,
    "builtins.bytes": lambda: b"",
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "collections.OrderedDict": OrderedDict,
}
