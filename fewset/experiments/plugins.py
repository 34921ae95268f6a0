"""One's own members (adapters, heads, backbones, encoders, protocols, importers) from a Python file."""

import importlib.util
import sys
from pathlib import Path

from fewset.runtime.errors import UserError

_loaded: set[Path] = set()


def load_plugin(path: Path) -> None:
    """Execute a Python file, once, so that what it registers is known. Only files that users name are run."""
    if not path.is_file():
        raise UserError(f"there is no plugin file {path}")
    if path.resolve() in _loaded:
        return
    name = f"fewset_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} is not a Python file; a plugin's name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    _loaded.add(path.resolve())
