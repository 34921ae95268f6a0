"""Pickle files read without running anything that is in them.

A pickle is a program: it may call any function by name. Here it may call none but the few below, which make
NumPy arrays and plain containers. Files of Python 2 and 3, of NumPy 1 and 2 are read alike.
"""

import pickle
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from math import prod
from typing import Any, ClassVar

import numpy as np

from fewset.core.errors import UserError
from fewset.data.images.sources import Source

_PIECE = 2**24
NUMBER = (int, np.integer)
NAME = (str, bytes, *NUMBER)


def read_pickle(source: Source, file: str) -> Any:
    """What a pickle file holds, if that is arrays, containers, strings and numbers; else it is refused."""
    try:
        with source.open(file) as opened:
            return _Reader(_Pieces(opened), encoding="latin1").load()  # strings of Python 2 have no encoding
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


def flat_list(values: Any, kinds: tuple[type, ...], what: str) -> list[Any]:
    """The numbers or names of a column, whatever holds them; never what nests, which may have no end."""
    is_column = isinstance(values, list | tuple) or (isinstance(values, np.ndarray) and values.ndim == 1)
    if not is_column or not all(isinstance(each, kinds) for each in values):
        raise UserError(
            f"{what} is not a list of {'whole numbers' if kinds == NUMBER else 'names or numbers'}"
        )
    return list(values)


def array_of(values: Any, what: str) -> np.ndarray:
    """An array that a pickle file holds as such."""
    if not isinstance(values, np.ndarray):
        raise UserError(f"{what} is a {type(values).__name__}, expected an array")
    return values


class _Refused(Exception):  # noqa: N818 - the text is the name of what was refused
    pass


class _Pieces:
    """A file that is read piece by piece, so that a claim of a length alone takes no memory."""

    def __init__(self, file: Any) -> None:
        self.file = file

    def readline(self) -> bytes:
        line: bytes = self.file.readline(_PIECE)
        if not line.endswith(b"\n"):
            raise EOFError("it ends within a line")
        return line

    def read(self, length: int) -> bytes:
        parts = []
        while length > 0 and (part := self.file.read(min(length, _PIECE))):
            parts.append(part)
            length -= len(part)
        return b"".join(parts)


def _checked_key(key: Any) -> Any:
    """A key as it is, unless it is a container: the hash of one that nests takes exponential time."""
    if not isinstance(key, str | bytes | int | float | np.generic | None):
        raise _Refused(f"a {type(key).__name__} as a key or in a set")
    return key


# The reader that is written in Python, since the other one cannot be kept from hashing what it reads.
_PythonReader: Any = pickle._Unpickler


class _Reader(_PythonReader):  # type: ignore[misc]
    dispatch: ClassVar[dict[int, Any]] = dict(_PythonReader.dispatch)

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.stack[-1][_checked_key(key)] = value

    def load_setitems(self) -> None:
        items = self.pop_mark()
        for key, value in zip(items[::2], items[1::2], strict=True):
            self.stack[-1][_checked_key(key)] = value

    def load_dict(self) -> None:
        items = self.pop_mark()
        self.append({_checked_key(key): value for key, value in zip(items[::2], items[1::2], strict=True)})

    def load_additems(self) -> None:
        items = self.pop_mark()
        self.stack[-1].update(map(_checked_key, items))

    def load_frozenset(self) -> None:
        items = self.pop_mark()  # which changes `append`
        self.append(_frozenset(items))

    dispatch[pickle.SETITEM[0]] = load_setitem
    dispatch[pickle.SETITEMS[0]] = load_setitems
    dispatch[pickle.DICT[0]] = load_dict
    dispatch[pickle.ADDITEMS[0]] = load_additems
    dispatch[pickle.FROZENSET[0]] = load_frozenset

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


def _set(items: Iterable[Any] = ()) -> set[Any]:
    return set(map(_checked_key, items))


def _frozenset(items: Iterable[Any] = ()) -> frozenset[Any]:
    return frozenset(map(_checked_key, items))


def _ordered(items: Iterable[tuple[Any, Any]] = ()) -> OrderedDict[Any, Any]:
    return OrderedDict((_checked_key(key), value) for key, value in items)


_ADMITTED: dict[str, Callable[..., Any]] = {
    "numpy._core.multiarray._reconstruct": _reconstruct,
    "numpy._core.numeric._frombuffer": _from_buffer,
    "numpy._core.multiarray.scalar": _scalar,
    "numpy.dtype": _DType,
    "_codecs.encode": _encode,
    "builtins.bytes": lambda: b"",
    "builtins.set": _set,
    "builtins.frozenset": _frozenset,
    "collections.OrderedDict": _ordered,
}
