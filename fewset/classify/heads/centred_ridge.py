"""Ridge regression to the classes, in closed form."""

import torch
from jaxtyping import Float
from torch import Tensor

from fewset.classify.heads import Solution, centred, register_classifier_head
from fewset.models.regression import ridge

STRENGTH = 1.0
SCALE = 15.0
"""The regression's factor, so that probabilities are about right before the temperature is learned."""


@register_classifier_head("ridge")
class RidgeHead:
    """Square root, length 1, less the support's mean, length 1; then ridge regression of strength 1."""

    power = 0.5

    def solve(self, rows: Float[Tensor, "T S D"], membership: Float[Tensor, "T S N"]) -> Solution:
        centred_rows, shift = centred(rows, membership)
        strength = torch.full_like(rows[:, 0, 0], STRENGTH)
        return Solution(
            shift=shift,
            weight=SCALE * ridge(centred_rows, membership, strength),
            bias=rows.new_zeros(rows.shape[0], membership.shape[2]),
        )
