"""fewset: recognise new classes from a handful of images by adapting embeddings to the task at hand.

The public names are loaded when they are first used, so that `import fewset` is quick and needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fewset.adapters import register_adapter
    from fewset.authors import load_authors_checkpoint
    from fewset.data.store import open_set
    from fewset.evaluation import Score, compare, evaluate
    from fewset.model import FewShotModel
    from fewset.sampling import TaskSpec
    from fewset.weights import load

__version__ = "0.1.0"

_HOME = {
    "FewShotModel": "fewset.model",
    "Score": "fewset.evaluation",
    "TaskSpec": "fewset.sampling",
    "compare": "fewset.evaluation",
    "evaluate": "fewset.evaluation",
    "load": "fewset.weights",
    "load_authors_checkpoint": "fewset.authors",
    "open_set": "fewset.data.store",
    "register_adapter": "fewset.adapters",
}

__all__ = [
    "FewShotModel",
    "Score",
    "TaskSpec",
    "compare",
    "evaluate",
    "load",
    "load_authors_checkpoint",
    "open_set",
    "register_adapter",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fewset' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
