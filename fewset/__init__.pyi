"""The public names, for type checkers; `__init__.py` reads from here where each is defined."""

from fewset.classify.classifier import FewShotClassifier as FewShotClassifier
from fewset.classify.embedding import embed as embed
from fewset.classify.image_encoder import ImageEncoder as ImageEncoder
from fewset.classify.predict.batches import Embedder as Embedder
from fewset.classify.predict.batches import Predictor as Predictor
from fewset.core.errors import UserError as UserError
from fewset.data.images.importers import register_importer as register_importer
from fewset.data.images.importing import import_set as import_set
from fewset.data.images.store import open_set as open_set
from fewset.encoders import register_encoder as register_encoder
from fewset.evaluation.embedding import embed_images as embed_images
from fewset.evaluation.protocols import register_protocol as register_protocol
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

__version__: str
__all__: list[str]
