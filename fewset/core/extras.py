"""Libraries that only some users need, imported where they are used."""

import os
from importlib import import_module
from typing import Any

from fewset.core.errors import UserError

# Else onnxruntime stores an id of the machine in the user's cache, and reports to its makers.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# Libraries that whole rooms are built on, which a command imports with the room.
_EXTRA_OF = {"jinja2": "report", "matplotlib": "report"}


def import_extra(module: str, extra: str) -> Any:
    """The module, or an error that names the extra to install."""
    try:
        return import_module(module)
    except ImportError as error:
        raise _missing(module, extra, error) from None


def as_missing_extra(error: BaseException) -> UserError | None:
    """The user's error for a library of an extra that is not installed; None for any other error."""
    library = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    return _missing(library, _EXTRA_OF[library], error) if library in _EXTRA_OF else None


def _missing(module: str, extra: str, error: BaseException) -> UserError:
    return UserError(f"{module} is not installed or does not import ({error}): pip install 'fewset[{extra}]'")


def imports(*modules: str) -> bool:
    """Whether all of these modules can be imported."""
    try:
        for module in modules:
            import_module(module)
    except ImportError:
        return False
    return True
