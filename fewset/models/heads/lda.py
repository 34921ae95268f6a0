"""Linear discriminant analysis with a shrunken covariance."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fewset.core.errors import UserError
from fewset.models.about import About
from fewset.models.heads import SimilarityHead, register_head
from fewset.models.linear_form import LinearForm
from fewset.models.regression import cholesky, class_means, row_balance, support_rows
from fewset.models.similarity import negative_squared_euclidean


class Discriminants(NamedTuple):
    """The weights Σ⁻¹μ of every class mean μ, and the means; these as seen from the `middle` of them all."""

    weights: Float[Tensor, "T D N"]
    means: Float[Tensor, "T D N"]
    middle: Float[Tensor, "T 1 D"]

    def logits(self, query: Float[Tensor, "T M D"]) -> Float[Tensor, "T M N"]:
        """μᵀΣ⁻¹q - μᵀΣ⁻¹μ / 2, of queries that are seen from the middle, too."""
        halves = (self.means * self.weights).sum(dim=1, keepdim=True) / 2
        return (query - self.middle) @ self.weights - halves

    def linear_form(self) -> LinearForm:
        """Of queries as they are."""
        return LinearForm(self.weights.mT, ((self.middle.mT + self.means / 2) * self.weights).sum(dim=1))


def discriminants(
    rows: Float[Tensor, "T S D"], members: Float[Tensor, "T S N"], shrinkage: float
) -> Discriminants:
    """What tells the classes of shots apart.

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
    solved = (centred - within.mT @ torch.cholesky_solve(within @ centred, factor)) / floor
    return Discriminants(solved, centred, middle)


@register_head("lda")
class LdaHead(SimilarityHead):
    """Linear discriminant analysis of the shots, one covariance for all classes; wants `average="post"`.

    The covariance within the classes is shrunk towards the sphere (Friedman, 1989; Ledoit and Wolf, 2004):
    with one shot a class it is the sphere, and the head is the nearest class mean. The share is fixed: a few
    shots are too few for the estimate of Ledoit and Wolf. Where shots differ by class each class counts
    alike.
    """

    about = About(
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

    def forward(
        self,
        support: Float[Tensor, "T N K D"],
        query: Float[Tensor, "T M D"],
        mask: Bool[Tensor, "T N K"] | None = None,
    ) -> Float[Tensor, "T M N"]:
        return discriminants(*support_rows(support, mask), self.shrinkage).logits(query) / self.temperature

    def linear_form(
        self, support: Float[Tensor, "T N K D"], mask: Bool[Tensor, "T N K"] | None = None
    ) -> LinearForm:
        return discriminants(*support_rows(support, mask), self.shrinkage).linear_form()
