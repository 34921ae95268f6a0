"""TADAM's auxiliary task: beside its tasks, a model learns to classify all classes of the train split."""

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from fewset.models.model import FewShotModel
from fewset.tasks.sampling import ClassIndex


class AuxiliaryTask(nn.Module):
    """A linear layer that predicts the class of the train split of each item of a task.

    Its input is `head.embed` of the item if the head has that (TADAM's does), else the embedding, or the mean
    over the places of a map.

    Oreshkin et al. (2018) replace a share of the steps by such a classification, 0.9^⌊20 t / T⌋ of them at
    step t of T. Here that share is the weight of its loss in every step (`share`): the same in the mean, with
    less noise.
    """

    def __init__(self, dim: int, index: ClassIndex) -> None:
        super().__init__()
        self.classifier = nn.Linear(dim, len(index.classes))
        valid = index.rows >= 0
        self.class_of = np.zeros(index.rows.max() + 1, dtype=np.int64)
        self.class_of[index.rows[valid]] = np.nonzero(valid)[0]

    @staticmethod
    def share(done: float) -> float:
        """The weight when this share of the training is done.

        >>> AuxiliaryTask.share(0.0), round(AuxiliaryTask.share(0.99), 3)
        (1.0, 0.135)
        """
        return float(0.9 ** int(20 * done))

    def forward(
        self,
        model: FewShotModel,
        embedded: Float[Tensor, "T N KQ *places D"],
        items: Int[np.ndarray, "T N KQ"],
    ) -> Float[Tensor, ""]:
        """The mean cross-entropy of the items of tasks; `items` are their places in the index."""
        rows = embedded.flatten(1, 2)
        if hasattr(model.head, "embed"):
            rows = model.head.embed(rows)  # type: ignore[operator]
        elif rows.ndim > 3:
            rows = rows.flatten(2, -2).mean(dim=2)
        return self.loss(rows.flatten(0, 1), items.reshape(-1))

    def loss(self, rows: Float[Tensor, "B D"], items: Int[np.ndarray, " B"]) -> Float[Tensor, ""]:
        """The mean cross-entropy of rows; `items` are their places in the index."""
        labels = torch.from_numpy(self.class_of[items]).to(rows.device)
        return F.cross_entropy(self.classifier(rows), labels)
