"""fewset: recognise new classes from a handful of images by adapting embeddings to the task at hand.

The public names are listed in `__init__.pyi`. Each is loaded when it is first used, so that `import fewset`
is quick and needs no torch.
"""

import ast
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

_MODULES = {
    item.name: node.module
    for node in ast.parse(Path(__file__).with_name("__init__.pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom) and node.module
    for item in node.names
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'fewset' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _compute_with_one_thread() -> None:
    """In a forked process the other threads are missing, and PyTorch would wait for them for ever."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_compute_with_one_thread)
