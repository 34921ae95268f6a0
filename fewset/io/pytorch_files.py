"""Files that others wrote with `torch.save`, read as tensors and plain data: nothing in them is run."""

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
from fewset.io.reading import open_file
from fewset.io.zips import open_zip

_WRAPPERS = ("params", "state_dict")
_ZIP, _SMALL = b"PK\3\4", 2**20
_PLAIN = {
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
}  # fmt: skip
_LONGEST_LINE = 1000  # bytes, of a module or a class that a pickle names
_LISTED, _LONGEST = 8, 40  # of what is left out: how many are named, and how much of each name


class _ShortLines(io.BufferedReader):
    """A file whose lines are cut.

    The name of a class in a damaged pickle can run on through megabytes of tensors. PyTorch searches its own
    error message, which has this name in it, in time that is quadratic in its length.
    """

    def readline(self, size: int | None = -1, /) -> bytes:  # noqa: ARG002
        return super().readline(_LONGEST_LINE)


class _Inert:
    """In place of an object that a file has beside its weights; only what it calls the model is looked at."""

    model_class: object = None

    def __new__(cls, *_: object) -> "_Inert":
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        self.model_class = state.get("model_class") if isinstance(state, dict) else None


# What files of pre-training hold beside tensors and plain containers: the options of a program, the numbers
# of a log. The libraries' own classes are not given to a file to fill in.
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
    """The state dict in a file, alone or as "params" or "state_dict"; a warning names what is beside it.

    If the options beside it name a model class, as those of the authors' programs do, it has to be one of
    `model_classes`; with none of these, any is taken.
    """
    if not path.is_file():
        raise UserError(f"there is no checkpoint file {path}")
    _check_packed(path)
    try:
        with torch.serialization.safe_globals(_HARMLESS), _ShortLines(io.FileIO(path)) as file:
            content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # a file that is no checkpoint makes PyTorch raise almost anything
        raise UserError(f"{path} is refused: {_reason(error)}; none of it was run") from None
    state = _state(content, path)
    if model_classes:
        _check_model_class(content, model_classes, path)
    for name, value in state.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise UserError(
                f"{path}: the entry {name!r} is of type {type(value).__name__}, expected a named tensor"
            )
        strange = value.is_nested or value.is_quantized or value.is_meta or value.layout != torch.strided
        if strange or value.dtype not in _PLAIN:
            raise UserError(
                f"{path}: the tensor {ascii(name)[:_LONGEST]} of {value.dtype} is quantised, sparse, nested "
                "or without numbers, expected plain numbers"
            )
    return {
        name: value.float() if value.is_floating_point() else value  # what is too large is infinite now
        for name, value in state.items()
    }


def _check_packed(path: Path) -> None:
    """Refuse a zip file that would become far larger in memory: PyTorch compresses nothing."""
    with open_file(path) as file:
        if file.read(len(_ZIP)) != _ZIP:
            return  # of PyTorch before 1.6
    try:
        with open_zip(path) as archive:
            claimed = sum(member.file_size for member in archive.infolist())
    except OSError as error:
        raise UserError(f"{path} is refused: {_reason(error)}; none of it was run") from None
    size = path.stat().st_size
    if claimed > 2 * size + _SMALL:
        raise UserError(
            f"{path} is refused: of {size:,} bytes, it claims {claimed:,}; PyTorch saves no such file"
        )


def _state(content: Any, path: Path) -> dict[Any, Any]:
    found = content if isinstance(content, dict) else {}
    wrapper = next((name for name in _WRAPPERS if isinstance(found.get(name), dict)), None)
    state: dict[Any, Any] = found if wrapper is None else found[wrapper]
    if not state:
        raise UserError(
            f'{path} holds no state dict, expected {{"params": state_dict}}, {{"state_dict": state_dict}} or '
            "a bare state dict"
        )
    rest = [] if wrapper is None else [ascii(name)[:_LONGEST] for name in found if name != wrapper]
    if rest:
        more = f" and {len(rest) - _LISTED} more" if len(rest) > _LISTED else ""
        warnings.warn(
            f"{path}: left out {', '.join(rest[:_LISTED])}{more}, which stand beside the weights",
            stacklevel=5,
        )
    return state


def _check_model_class(content: dict[Any, Any], known: Collection[str], path: Path) -> None:
    """Other methods have tensors of the same names and compute something else with them."""
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
        return f"its pickle refers to code, {name}, and only tensors are read; save the state dict alone"
    return f"it is no file of tensors saved by PyTorch, or it is damaged ({type(error).__name__})"
