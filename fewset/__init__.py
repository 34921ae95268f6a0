"""fewset: recognise new classes from a handful of images by adapting embeddings to the task at hand.

The public names are loaded when they are first used, so that `import fewset` is quick and needs no torch.
"""

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fewset.classify.classifier import FewShotClassifier as FewShotClassifier
    from fewset.classify.embedding import embed as embed
    from fewset.data.images.importing import import_set as import_set
    from fewset.data.images.store import open_set as open_set
    from fewset.encoders import register_encoder as register_encoder
    from fewset.evaluation.scoring import evaluate as evaluate
    from fewset.experiments.authors_checkpoint import load_authors_checkpoint as load_authors_checkpoint
    from fewset.experiments.weights import list_models as list_models
    from fewset.experiments.weights import load as load
    from fewset.models.adapters import register_adapter as register_adapter
    from fewset.models.backbones import register_backbone as register_backbone
    from fewset.models.heads import register_head as register_head
    from fewset.models.model import FewShotModel as FewShotModel
    from fewset.tasks.scores import Difference as Difference
    from fewset.tasks.scores import Score as Score
    from fewset.tasks.scores import compare as compare
    from fewset.tasks.spec import TaskSpec as TaskSpec

__version__ = "0.1.0"

_HOME = {
    "Difference": "fewset.tasks.scores",
    "FewShotClassifier": "fewset.classify.classifier",
    "FewShotModel": "fewset.models.model",
    "Score": "fewset.tasks.scores",
    "TaskSpec": "fewset.tasks.spec",
    "compare": "fewset.tasks.scores",
    "embed": "fewset.classify.embedding",
    "evaluate": "fewset.evaluation.scoring",
    "import_set": "fewset.data.images.importing",
    "list_models": "fewset.experiments.weights",
    "load": "fewset.experiments.weights",
    "load_authors_checkpoint": "fewset.experiments.authors_checkpoint",
    "open_set": "fewset.data.images.store",
    "register_adapter": "fewset.models.adapters",
    "register_backbone": "fewset.models.backbones",
    "register_encoder": "fewset.encoders",
    "register_head": "fewset.models.heads",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'fewset' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _compute_with_one_thread() -> None:
    """In a forked process the other threads are missing, and PyTorch would wait for them for ever."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_compute_with_one_thread)
