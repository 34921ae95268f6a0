"""Ridge regression to the classes, in closed form."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from fewset.classify.heads import Solution, centred, register_classifier_head
from fewset.models.regression import class_means, ridge_weights, row_balance

STRENGTH = 1.0
SCALE = 15.0
"""The factor of the logits, so that probabilities are about right before the temperature is learned.

At K shots it is √K times as large, which was chosen by the calibration error on validation classes.
"""


@register_classifier_head("ridge")
class RidgeHead:
    """Square root, length 1, less the support's mean, length 1; then ridge regression of strength 1.

    Its rows are the class means at length 1, each with the target of its class, and what the shots differ
    from their class's mean by, with the target 0. At one shot that is the ridge regression on the shots. With
    more it is a little ahead of that one where classes are many: 0.7 to 0.9 points on validation classes of
    CUB at 50-way 5-shot, 0.2 to 0.3 at 20-way, and level on those of miniImageNet (-0.1 to +0.1).
    """

    power = 0.5

    def solve(self, rows: Float[Tensor, "T S D"], membership: Float[Tensor, "T S N"]) -> Solution:
        shots, shift = centred(rows, membership)
        means = class_means(shots, membership)
        differences = (shots - membership @ means) * row_balance(membership)
        way = membership.shape[2]
        targets = F.pad(torch.eye(way).to(rows), (0, 0, 0, shots.shape[1])).expand(len(rows), -1, -1)
        known = torch.cat([F.normalize(means, dim=-1), differences], dim=1)
        strength = torch.full_like(rows[:, 0, 0], STRENGTH)
        scale = SCALE * (membership.sum(dim=(1, 2)) / way).sqrt()
        return Solution(
            shift=shift,
            weight=scale.view(-1, 1, 1) * ridge_weights(known, targets, strength),
            bias=rows.new_zeros(len(rows), way),
        )
