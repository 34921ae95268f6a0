"""A linear layer that is fitted to each task: logistic regression (Baseline)."""

import torch

from fewset.models.heads import Logits, Mask, Queries, Shots, SimilarityHead, above_zero, register_head
from fewset.models.method_info import MethodInfo
from fewset.models.regression import logistic_regression, support_rows, with_ones
from fewset.models.similarity import negative_squared_euclidean


@register_head("logistic")
class LogisticRegressionHead(SimilarityHead):
    """The linear layer that minimises `C Σ cross-entropy + |W|² / 2` over the shots; wants `average="post"`.

    "Baseline" of Chen et al. (2019): a new linear layer on frozen features. They take 100 epochs of SGD from
    a random start, with weight decay. Here the minimum itself is approached, so that neither a start nor the
    order of the shots matters (`inverse_strength` is scikit-learn's C, and the intercept is penalised as the
    weights are). Tian et al. (2020) do the same on embeddings of length 1: set
    `model.feature_transform = ["l2"]`. Where shots differ by class each class counts alike.
    """

    about = MethodInfo(
        "a linear layer fitted to each task: logistic regression",
        paper="Baseline, Chen et al., ICLR 2019; Tian et al., ECCV 2020",
        every_shot=True,
        no_onnx="it fits each task by many steps, each of which would be written out",
    )

    def __init__(
        self,
        dim: int,
        inverse_strength: float = 1.0,
        steps: int = 50,
        intercept: bool = True,
        temperature: float = 1.0,
    ) -> None:
        super().__init__(dim, negative_squared_euclidean, temperature)
        above_zero(inverse_strength=inverse_strength, steps=steps)
        self.inverse_strength, self.steps, self.intercept = inverse_strength, steps, intercept

    def forward(self, support: Shots, query: Queries, mask: Mask = None) -> Logits:
        rows, members = support_rows(support, mask)
        inverse_strength = torch.as_tensor(self.inverse_strength, dtype=rows.dtype, device=rows.device)
        rows = with_ones(rows, self.intercept)
        weights = logistic_regression(rows, members, inverse_strength, self.steps)
        return with_ones(query, self.intercept) @ weights / self.temperature
