"""The nearest class mean by cosine."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from fewset.classify.heads import Solution, register_classifier_head
from fewset.models.regression import class_means

SCALE = 10.0
"""The cosines' factor, so that probabilities are about right before the temperature is learned."""


@register_classifier_head("centroid")
class CentroidHead:
    """The cosine of a row and the mean of each class's rows at length 1."""

    power = 1.0

    def solve(self, rows: Float[Tensor, "T S D"], membership: Float[Tensor, "T S N"]) -> Solution:
        means = F.normalize(class_means(rows, membership), dim=-1)
        return Solution(
            shift=rows.new_zeros(rows.shape[0], rows.shape[2]),
            weight=SCALE * means.mT,
            bias=rows.new_zeros(rows.shape[0], membership.shape[2]),
        )
