"""Models on a table of features: no image is embedded, and only the set-to-set function is trained.

A table may be larger than the memory, so many rows are read once, in the order of the file, a few at a time.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from fewset.core.errors import UserError
from fewset.core.randomness import Stream, mix
from fewset.data.features.table import SETUPS, FeatureTable
from fewset.evaluation.class_means import check_table, embed_rows, fit_centre
from fewset.models.model import FewShotModel
from fewset.models.task_model import device_of
from fewset.tasks.sampling import ClassIndex
from fewset.training.episodic import TaskStage, TrainConfig

_VALIDATION_SHARE = 0.2  # of the seen classes, where the table has no classes for validation
_VALIDATION_ROWS = 64  # of each class that is validated on: 300 classes of 2,048 dimensions are 157 MB


class FeatureTraining(TaskStage):
    """Meta-training of an adapter on tasks of the seen classes' training rows; a stage of the training loop.

    The best weights are chosen on classes that are not trained on: the unseen classes of the validation
    setup if the table has them, else a fifth of the seen classes, drawn with the seed (at least as many as a
    validation task has ways).
    """

    model: FewShotModel

    def __init__(self, model: FewShotModel, table: FeatureTable, config: TrainConfig, seed: int) -> None:
        check_table(model, table)
        parameters = list(model.parameters())
        if not parameters and config.epochs:
            raise UserError(
                "this model has nothing to train (no adapter); set train.epochs = 0 to score it as it is"
            )
        fit_centre(model, table)
        train, self.validated = _train_and_validation(table, config.validation_way, seed)
        self.table, self.rows = table, table.rows(train, "train")
        index, validation_index = (
            ClassIndex(table.labels[rows], table.class_names)
            for rows in (self.rows, table.rows(self.validated, "train"))
        )
        # The loop wants an optimiser even when it takes no step.
        learning = parameters or [nn.Parameter(torch.zeros(1))]
        super().__init__(model, config, seed, index, validation_index, (), learning)

    def embed_tasks(self, items: Int[np.ndarray, "T N KQ"], first: int) -> Float[Tensor, "T N KQ D"]:  # noqa: ARG002
        return self._embed(self.rows[items])

    def embed_validation(self) -> tuple[Float[Tensor, "items D"], ClassIndex]:
        """At most 64 training rows of each class, which fit in memory whatever the table's size."""
        config, table = self.config, self.table
        labels = table.labels[table.rows(self.validated, "train")]
        fewest = min(int((labels == label).sum()) for label in self.validated)
        rows = min(max(_VALIDATION_ROWS, config.shot + config.validation_query), fewest)
        drawn = table.draw(self.validated, rows, mix(self.seed, Stream.VALIDATION_ROWS))
        labels = table.labels[drawn.reshape(-1)]
        return self._embed(drawn).flatten(0, 1), ClassIndex(labels, table.class_names)

    def _embed(self, rows: Int[np.ndarray, "*batch"]) -> Float[Tensor, "*batch D"]:
        features = torch.from_numpy(self.table.read(rows.reshape(-1))).to(device_of(self.model))
        return embed_rows(self.model, features).view(*rows.shape, -1)


def _train_and_validation(
    table: FeatureTable, least: int, seed: int
) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " validation"]]:
    """The classes to train on and those to choose the best weights on."""
    seen = table.classes("seen")
    if (table.unseen & (table.setups == SETUPS.index("validation"))).any():
        return seen, table.classes("unseen", "validation")
    order = sorted(seen.tolist(), key=lambda number: mix(seed, number, Stream.VALIDATION_CLASSES))
    count = max(least, round(_VALIDATION_SHARE * len(seen)))
    return np.array(order[count:], dtype=np.int64), np.array(order[:count], dtype=np.int64)
