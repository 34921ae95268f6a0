"""Dimensions weighed by the spread of the set: those in which its items agree cannot distinguish them."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fewset.models.adapters import Context, Queries, Sets, register_adapter, start_from_zero
from fewset.models.method_info import MethodInfo

_FLOOR = 0.1  # so that a dimension without spread has a logarithm
_TINY = 1e-12


@register_adapter("weighing")
class Weighing(nn.Module):
    """ψ = z + (w - 1) (z - μ) with z = φ + Rφ, for the items of the set and the queries alike.

    μ is the mean of z over the set, v its variance in each dimension and v̄ the mean of v over the dimensions;
    w = exp(L log((v / v̄ + 0.1) / 1.1)). The matrices R and L are learned, 2 D² parameters; with `zero_start`
    both begin as zero, and the whole as the identity. The context belongs to the set.

    Distances between items and queries do not depend on μ: they are those of z, weighed. In a set of one
    there is no spread, w is 1, and only z is left.
    """

    about = MethodInfo(
        "dimensions of items and queries weighed by the spread of the set", paper="fewset", trained=True
    )

    def __init__(self, dim: int, zero_start: bool = False) -> None:
        super().__init__()
        self.map, self.log_weights = (nn.Linear(dim, dim, bias=False) for _ in range(2))
        if zero_start:
            start_from_zero(self.map)
            start_from_zero(self.log_weights)

    def forward(self, items: Sets, context: Context = None) -> Sets:
        return self._weigh(items if context is None else torch.cat([items, context], dim=1), items)

    def adapt_queries(self, items: Sets, queries: Queries) -> Queries:
        """The queries, each by itself, with the weights of the set."""
        return self._weigh(items, queries)

    def _weigh(self, given: Float[Tensor, "B P D"], rows: Float[Tensor, "B R D"]) -> Float[Tensor, "B R D"]:
        given, rows = (each + self.map(each) for each in (given, rows))
        mean = given.mean(dim=1, keepdim=True)
        spread = (given - mean).square().mean(dim=1, keepdim=True) + _TINY
        share = spread / spread.mean(dim=2, keepdim=True)
        weights = self.log_weights(torch.log((share + _FLOOR) / (1 + _FLOOR)))
        adapted: Tensor = rows + weights.expm1() * (rows - mean)
        return adapted
