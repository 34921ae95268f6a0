"""Custom members (adapters, heads, encoders, protocols, importers, trackers, ...) from a Python file."""

import importlib.util
import sys
import traceback
from pathlib import Path

from fewset.core.errors import UserError
from fewset.core.registry import plugin_error
from fewset.data.images.importers import IMPORTERS
from fewset.encoders import ENCODERS
from fewset.evaluation.protocols import PROTOCOLS
from fewset.experiments.trackers import TRACKERS
from fewset.models.adapters import ADAPTERS
from fewset.models.backbones import BACKBONES
from fewset.models.heads import HEADS

_KINDS = (ADAPTERS, BACKBONES, ENCODERS, HEADS, IMPORTERS, PROTOCOLS, TRACKERS)
_loaded: set[Path] = set()


def load_plugin(path: Path) -> None:
    """Execute a Python file, once, so that what it registers is known. Only files that users name are run.

    Raises:
        ValueError: There is no such file, it is no Python file, or it raises an exception.
    """
    if not path.is_file():
        raise UserError(f"there is no plugin file {path}; give the path of a Python file")
    if path.resolve() in _loaded:
        return
    name = f"fewset_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path} is not a Python file; a plugin's name ends in .py")
    for registry in _KINDS:
        registry.load()  # first, so that a name that is taken is an error of the plugin
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # somebody else's code may raise anything
        del sys.modules[name]
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f", line {frame.lineno}," for frame in frames if frame.filename == spec.origin]
        what = f"the plugin {path}{lines[-1] if lines else ''}"
        raise plugin_error(what, error, "fix the file, or leave out --plugin") from error
    _loaded.add(path.resolve())
