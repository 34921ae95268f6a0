"""A multi-class support vector machine on each task, trained through (MetaOptNet-SVM)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fewset.models.heads import Logits, Mask, Queries, Shots, above_zero, register_head
from fewset.models.method_info import MethodInfo
from fewset.models.regression import row_balance, support_rows
from fewset.models.similarity import negative_squared_euclidean

_RELAXATION = 1.6  # of ADMM; 1.5 to 1.8 is usual


def onto_simplex(
    rows: Float[Tensor, "*batch N"], total: Float[Tensor, "*batch 1"]
) -> Float[Tensor, "*batch N"]:
    """The nearest rows without negative entries that sum to `total` (Duchi et al., 2008)."""
    ordered = rows.sort(dim=-1, descending=True).values
    excess = ordered.cumsum(dim=-1) - total
    places = torch.arange(1, rows.shape[-1] + 1, device=rows.device)
    count = (ordered * places > excess).sum(dim=-1, keepdim=True).clamp_min(1)
    return (rows - excess.gather(-1, count - 1) / count).clamp_min(0)


def svm_weights(
    rows: Float[Tensor, "T S D"], members: Float[Tensor, "T S N"], penalty: float, steps: int
) -> Float[Tensor, "T D N"]:
    """The weights that minimise `|W|² / 2 + penalty Σ slack` (Crammer and Singer, 2001), by its dual.

    W = Xᵀα, where α minimises tr(αᵀXXᵀα) / 2 - tr(αᵀY), each row of α sums to 0, and none of its entries is
    above `penalty` in the column of the row's class and above 0 in the others. ADMM alternates between the
    quadratic part, whose matrix is factored once, and the constraints, a projection onto the simplex. All
    steps are differentiable. A row's penalty is weighted such that all classes count alike.
    """
    most = penalty * row_balance(members).square()
    highest = most * members
    gram = rows @ rows.mT
    diagonal = gram.diagonal(dim1=-2, dim2=-1).sum(dim=-1) / members.sum(dim=(1, 2))
    pace = diagonal.clamp_min(torch.finfo(rows.dtype).eps).view(-1, 1, 1)
    identity = torch.eye(gram.shape[-1], dtype=rows.dtype, device=rows.device)
    inverse = torch.linalg.inv_ex(gram + pace * identity).inverse
    allowed = price = torch.zeros_like(members)
    for _ in range(steps):
        free = inverse @ (members + pace * (allowed - price))
        relaxed = _RELAXATION * free + (1 - _RELAXATION) * allowed
        allowed = highest - onto_simplex(highest - relaxed - price, most)
        price = price + relaxed - allowed
    return rows.mT @ allowed


@register_head("svm")
class SvmHead(nn.Module):
    """Logits α q W of a linear multi-class SVM that is fitted to the shots (Lee et al., 2019); α is learned.

    Wants `average="post"`. As in MetaOptNet: the SVM of Crammer and Singer without an intercept, penalty C of
    0.1. MetaOptNet solves its dual with an interior-point method of at most 15 steps and differentiates by
    the conditions of the optimum; here gradients go through the steps of ADMM.

    Without an intercept, embeddings that share a large mean favour some classes: train through the head, or
    centre them (`model.feature_transform = ["centre", "l2"]`).
    """

    about = MethodInfo(
        "a multi-class support vector machine, trained through",
        paper="MetaOptNet-SVM, Lee et al., CVPR 2019",
        every_shot=True,
        no_onnx="it solves equations, and ONNX has no operator for that",
    )

    def __init__(self, dim: int, penalty: float = 0.1, scale: float = 1.0, steps: int = 60) -> None:
        super().__init__()
        above_zero(penalty=penalty, steps=steps)
        self.dim, self.penalty, self.steps = dim, penalty, steps
        self.similarity = negative_squared_euclidean
        self.scale = nn.Parameter(torch.tensor(scale))

    def forward(self, support: Shots, query: Queries, mask: Mask = None) -> Logits:
        weights = svm_weights(*support_rows(support, mask), self.penalty, self.steps)
        return self.scale * (query @ weights)
