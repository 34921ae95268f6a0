"""Files that others wrote with `torch.save`, read as tensors and plain data: no code in them is run."""

import io
import pickle
import re
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fewset.core.errors import UserError
from fewset.core.names import shortened
from fewset.io.reading import Damaged, open_file
from fewset.io.zips import open_zip

_WRAPPERS = ("params", "state_dict")
_ZIP, _SMALL = b"PK\3\4", 2**20
_PLAIN = {
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
}  # fmt: skip
_LONGEST_LINE = 1000  # bytes, of a module or a class that a pickle names
_LISTED, _LONGEST = 8, 40  # entries that a warning names, and letters of each name


class _ShortLines(io.BufferedReader):
    """A file whose lines are cut.

    In a damaged pickle the name of a class can run on through megabytes of tensors, and PyTorch searches its
    own error message, which has this name in it, in time that is quadratic in its length.
    """

    def readline(self, size: int | None = -1, /) -> bytes:  # noqa: ARG002
        return super().readline(_LONGEST_LINE)


class _Inert:
    """Replaces an object that a file has beside its weights; only its model class is looked at."""

    model_class: object = None

    def __new__(cls, *_: object) -> "_Inert":
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        self.model_class = state.get("model_class") if isinstance(state, dict) else None


# Files of pre-training hold a program's options and a log beside tensors and plain containers. A file must
# not fill in the libraries' own classes.
_HARMLESS: list[Any] = [
    (_Inert, name)
    for name in (
        "argparse.Namespace",
        "numpy.core.multiarray.scalar",
        "numpy._core.multiarray.scalar",
        "numpy.dtype",
    )
]


def read_tensors(path: Path, model_classes: Collection[str] = ()) -> dict[str, Tensor]:
    """The state dict in a file, alone or as "params" or "state_dict"; a warning names the entries beside it.

    If the options beside it name a model class, as those of the authors' programs do, it has to be one of
    `model_classes`; without these, any is taken.
    """
    if not path.is_file():
        raise UserError(f"there is no checkpoint file {path}")
    _check_packed(path)
    try:
        with torch.serialization.safe_globals(_HARMLESS), _ShortLines(io.FileIO(path)) as file:
            content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file makes PyTorch raise almost anything
        raise Damaged(path, f"{_reason(error)}; no code in it was run") from None
    state = _state(content, path)
    if model_classes:
        _check_model_class(content, model_classes, path)
    for name, value in state.items():
        if not isinstance(name, str) or not _is_plain(value):
            kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
            raise Damaged(
                path, f"has {ascii(name)[:_LONGEST]} of type {kind}, expected a named, dense tensor"
            )
    # Values beyond the range of float32 become infinite.
    return {name: value.float() if value.is_floating_point() else value for name, value in state.items()}


def _is_plain(value: object) -> bool:
    """Whether it is a tensor that is not quantised, sparse, nested or without values."""
    return (
        isinstance(value, Tensor)
        and value.dtype in _PLAIN
        and value.layout == torch.strided
        and not (value.is_nested or value.is_quantized or value.is_meta)
    )


def _check_packed(path: Path) -> None:
    """Raise for a zip file that would become far larger in memory: PyTorch compresses nothing."""
    with open_file(path) as file:
        if file.read(len(_ZIP)) != _ZIP:
            return  # of PyTorch before 1.6
    with open_zip(path) as archive:
        claimed = sum(member.file_size for member in archive.infolist())
    size = path.stat().st_size
    if claimed > 2 * size + _SMALL:
        raise Damaged(path, f"has {size:,} bytes and claims {claimed:,}; PyTorch saves no such file")


def _state(content: Any, path: Path) -> dict[Any, Any]:
    found = content if isinstance(content, dict) else {}
    wrapper = next((name for name in _WRAPPERS if isinstance(found.get(name), dict)), None)
    state: dict[Any, Any] = found if wrapper is None else found[wrapper]
    if not state:
        raise UserError(f"{path} holds no state dict, alone or as 'params' or 'state_dict'")
    rest = [] if wrapper is None else [ascii(name)[:_LONGEST] for name in found if name != wrapper]
    if rest:
        more = f" and {len(rest) - _LISTED} more" if len(rest) > _LISTED else ""
        warnings.warn(
            f"{path}: left out {', '.join(rest[:_LISTED])}{more}, which stand beside the weights",
            stacklevel=5,
        )
    return state


def _check_model_class(content: dict[Any, Any], known: Collection[str], path: Path) -> None:
    """Raise for another method, which computes something else with tensors of the same names."""
    for value in content.values():
        said = value.get("model_class") if isinstance(value, dict) else getattr(value, "model_class", None)
        if isinstance(said, str) and said not in known:
            raise UserError(
                f"{path} says that its model is {shortened(said)!a}, which may compute something else "
                f"with tensors of the same names; known are {', '.join(known)}. If it is one of these, save "
                "the state dict alone"
            )


def _reason(error: Exception) -> str:
    code = re.search(r"GLOBAL ([\w.]+)", str(error))
    if isinstance(error, pickle.UnpicklingError) and code:
        name = shortened(code[1])
        return f"is rejected: its pickle refers to code, {name}, beside tensors"
    return f"is no file of tensors saved by PyTorch, or is damaged ({type(error).__name__})"
