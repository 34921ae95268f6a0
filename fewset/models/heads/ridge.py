"""Ridge regression to the classes, in closed form, trained through (R2D2, MetaOptNet-RR)."""

import torch
from torch import nn

from fewset.models.heads import Logits, Mask, Queries, Shots, above_zero, register_head
from fewset.models.method_info import MethodInfo
from fewset.models.regression import ridge, support_rows, with_ones
from fewset.models.similarity import negative_squared_euclidean


@register_head("ridge")
class RidgeRegressionHead(nn.Module):
    """Logits α q W with W = Xᵀ(XXᵀ + λI)⁻¹Y: X the shots, Y their classes; α and λ are learned.

    R2D2 (Bertinetto et al., 2019) and the ridge regression of MetaOptNet (Lee et al., 2019); wants
    `average="post"`. X has a column of ones as in R2D2's code, with `intercept = false` none as in
    MetaOptNet's. R2D2 also adds a learned constant to all logits, which would cancel in the softmax.
    Where shots differ by class each class counts alike, by weights of the rows.
    """

    about = MethodInfo(
        "ridge regression to the classes, strength and scale learned",
        paper="R2D2, Bertinetto et al., ICLR 2019; MetaOptNet-RR, Lee et al., CVPR 2019",
        every_shot=True,
        no_onnx="it solves equations, and ONNX has no operator for that",
    )

    def __init__(self, dim: int, strength: float = 1.0, scale: float = 1.0, intercept: bool = True) -> None:
        super().__init__()
        above_zero(strength=strength)
        self.dim, self.intercept = dim, intercept
        self.similarity = negative_squared_euclidean
        self.log_strength = nn.Parameter(torch.tensor(strength).log())
        self.scale = nn.Parameter(torch.tensor(scale))

    def forward(self, support: Shots, query: Queries, mask: Mask = None) -> Logits:
        rows, members = support_rows(support, mask)
        strength = self.log_strength.exp().expand(len(rows))
        weights = ridge(with_ones(rows, self.intercept), members, strength)
        return self.scale * (with_ones(query, self.intercept) @ weights)
