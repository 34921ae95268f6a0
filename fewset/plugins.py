"""Your own adapters from a Python file, for the command line."""

import importlib.util
import sys
from pathlib import Path

from fewset.errors import UserError


def load_plugin(path: Path) -> None:
    """Execute a Python file, so that what it registers is known. Only files that the user names are run."""
    if not path.is_file():
        raise UserError(f"there is no plugin file {path}")
    name = f"fewset_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} is not a Python file; a plugin's name ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
