"""Libraries that only some users need, imported where they are used."""

import os
from importlib import import_module
from typing import Any

from fewset.core.errors import UserError

# Else onnxruntime stores an id of the machine in the user's cache, and reports to its makers.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def import_extra(module: str, extra: str) -> Any:
    """The module, or an error that names the extra to install."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UserError(
            f"{module} is not installed or does not import ({error}): pip install 'fewset[{extra}]'"
        ) from None


def imports(*modules: str) -> bool:
    """Whether all of these modules can be imported."""
    try:
        for module in modules:
            import_module(module)
    except ImportError:
        return False
    return True
