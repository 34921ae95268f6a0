"""Linear discriminant analysis with a shrunken covariance."""

import torch
from jaxtyping import Float
from torch import Tensor

from fewset.core.errors import UserError
from fewset.models.heads import Logits, Mask, Queries, Shots, SimilarityHead, register_head
from fewset.models.method_info import MethodInfo
from fewset.models.regression import cholesky, class_means, row_balance, support_rows
from fewset.models.similarity import negative_squared_euclidean


def discriminant_logits(
    rows: Float[Tensor, "T S D"],
    members: Float[Tensor, "T S N"],
    query: Float[Tensor, "T M D"],
    shrinkage: float,
) -> Float[Tensor, "T M N"]:
    """μᵀΣ⁻¹q - μᵀΣ⁻¹μ / 2 for every query q and class mean μ, with the middle of the means as the origin.

    Σ = (1 - shrinkage) S + shrinkage v I, where S is the covariance within the classes and v the mean
    variance of the shots around that mean. Σ is inverted in as many dimensions as there are shots.
    """
    means = class_means(rows, members)
    middle = means.mean(dim=1, keepdim=True)
    balance = row_balance(members)
    total = balance.square().sum(dim=1, keepdim=True)
    spread = ((rows - middle) * balance).square().sum(dim=(1, 2), keepdim=True) / (total * rows.shape[2])
    floor = (shrinkage * spread).clamp_min(torch.finfo(rows.dtype).eps)
    within = (rows - members @ means) * balance * ((1 - shrinkage) / total).sqrt()
    centred = (means - middle).mT
    identity = torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device)
    factor = cholesky(within @ within.mT + floor * identity)
    weights = (centred - within.mT @ torch.cholesky_solve(within @ centred, factor)) / floor
    return (query - middle) @ weights - (centred * weights).sum(dim=1, keepdim=True) / 2


@register_head("lda")
class LdaHead(SimilarityHead):
    """Linear discriminant analysis of the shots, one covariance for all classes; wants `average="post"`.

    The covariance within the classes is shrunk towards the sphere (Friedman, 1989; Ledoit and Wolf, 2004):
    with one shot a class it is the sphere, and the head is the nearest class mean. The share is fixed: a few
    shots are too few for the estimate of Ledoit and Wolf. Where shots differ by class each class counts
    alike.
    """

    about = MethodInfo(
        "linear discriminant analysis with a shrunken covariance",
        paper="Friedman, JASA 1989; Ledoit and Wolf, JMVA 2004",
        every_shot=True,
        no_onnx="it solves equations, and ONNX has no operator for that",
    )

    def __init__(self, dim: int, shrinkage: float = 0.5, temperature: float = 1.0) -> None:
        super().__init__(dim, negative_squared_euclidean, temperature)
        if not 0 < shrinkage <= 1:
            raise UserError(f"shrinkage is {shrinkage}, expected a share above 0, up to 1")
        self.shrinkage = shrinkage

    def forward(self, support: Shots, query: Queries, mask: Mask = None) -> Logits:
        rows, members = support_rows(support, mask)
        return discriminant_logits(rows, members, query, self.shrinkage) / self.temperature
