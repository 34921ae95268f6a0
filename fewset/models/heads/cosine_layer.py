"""A cosine layer that is fitted to each task by gradient descent (Baseline++)."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from fewset.models.heads import (
    Logits,
    Mask,
    Queries,
    Shots,
    SimilarityHead,
    above_zero,
    at_least,
    register_head,
)
from fewset.models.method_info import MethodInfo
from fewset.models.regression import row_balance, support_rows
from fewset.models.similarity import cosine


def cosine_layer(
    rows: Float[Tensor, "T S D"],
    members: Float[Tensor, "T S N"],
    temperature: float,
    rate: float,
    steps: int,
) -> Float[Tensor, "T D N"]:
    """Weights of length 1 after steps of gradient descent on the mean cross-entropy of rows of length 1.

    They start from the class means. Weights are always sums of rows; so each step is taken on the (S, N)
    factors of the rows, and needs the cosines between rows only.
    """
    gram = rows @ rows.mT
    shares = row_balance(members).square()
    shares = shares / shares.sum(dim=1, keepdim=True)
    factors = _unit(members / members.sum(dim=1, keepdim=True), gram)
    for _ in range(steps):
        cosines = gram @ factors
        residual = shares * ((cosines / temperature).softmax(dim=-1) - members) / temperature
        along = (cosines * residual).sum(dim=1, keepdim=True)  # the part that changes the length alone
        factors = _unit(factors - rate * (residual - along * factors), gram)
    return rows.mT @ factors


def _unit(factors: Float[Tensor, "T S N"], gram: Float[Tensor, "T S S"]) -> Float[Tensor, "T S N"]:
    squared = (factors * (gram @ factors)).sum(dim=1, keepdim=True)
    return factors * squared.clamp_min(torch.finfo(factors.dtype).tiny).rsqrt()


@register_head("cosine_layer")
class CosineLayerHead(SimilarityHead):
    """A layer of one weight of length 1 a class, logits cos(q, w) / temperature; wants `average="post"`.

    "Baseline++" of Chen et al. (2019), who fit such a layer to the shots by 100 epochs of SGD from a random
    start. Here it is `steps` of gradient descent on all shots from the class means, along the sphere, so that
    neither a start nor the order of the shots matters. Where shots differ by class each class counts alike.
    """

    about = MethodInfo(
        "a cosine layer fitted to each task by gradient descent",
        paper="Baseline++, Chen et al., ICLR 2019",
        every_shot=True,
        no_onnx="it fits each task by gradient descent, which cannot be traced",
    )

    def __init__(self, dim: int, temperature: float = 0.1, rate: float = 0.1, steps: int = 100) -> None:
        super().__init__(dim, cosine, temperature)
        above_zero(rate=rate)
        at_least(0, steps=steps)
        self.rate, self.steps = rate, steps

    def forward(self, support: Shots, query: Queries, mask: Mask = None) -> Logits:
        rows, members = support_rows(support, mask)
        weights = cosine_layer(F.normalize(rows, dim=-1), members, self.temperature, self.rate, self.steps)
        return F.normalize(query, dim=-1) @ weights / self.temperature
