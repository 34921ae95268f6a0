"""DeepSets: each item with a pooled vector of all the others (Ye et al., CVPR 2020, sections 4.2 and B.2)."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from fewset.core.errors import UserError, refuse_unknown
from fewset.models.adapters import Context, Sets, register_adapter, start_from_zero
from fewset.models.method_info import MethodInfo


def maximum_of_others(rows: Float[Tensor, "B P D"], count: int) -> Float[Tensor, "B S D"]:
    """For each of the first `count` rows the maximum over all rows but itself; zero where there is no other.

    Only the row that holds the maximum needs the runner-up. So the memory grows with the set, not with its
    square, and nothing is floored at 0 as it is when a row is excluded by multiplying it with 0.
    """
    if rows.shape[1] == 1:
        return torch.zeros_like(rows)
    largest, holder = rows.max(dim=1, keepdim=True)
    second = rows.scatter(1, holder, -torch.inf).amax(dim=1, keepdim=True)
    own = holder == torch.arange(count, device=rows.device).unsqueeze(-1)
    return torch.where(own, second, largest)


def sum_of_others(rows: Float[Tensor, "B P D"], count: int) -> Float[Tensor, "B S D"]:
    """For each of the first `count` rows the sum of all rows but itself; zero where there is no other."""
    return rows.sum(dim=1, keepdim=True) - rows[:, :count]


_POOLS = {"max": maximum_of_others, "sum": sum_of_others}


@register_adapter("deepsets")
class DeepSets(nn.Module):
    """ψ = φ + g([φ; pool of h(φ') over the others]), the context being among the others.

    The pool is the maximum, which the authors found better, or the sum of the paper's formula. Alone in
    its set, an item has the zero vector for a pool.

    `as_published` is the arithmetic of the authors' code, which differs in two ways: it pools the
    embeddings and applies h to the result, and its maximum is never below 0, because it excludes an item by
    multiplying it with 0.

    With `zero_start`, which is not the paper's, the last layer of g begins as zero, so the function is the
    identity at the start.

    With `norm`, which is not the paper's, a LayerNorm of the result comes last, as in FEAT.
    """

    about = MethodInfo("each item with a pool of the others", paper="Ye et al., CVPR 2020", trained=True)

    def __init__(
        self,
        dim: int,
        pool: str = "max",
        as_published: bool = False,
        zero_start: bool = False,
        norm: bool = False,
    ) -> None:
        super().__init__()
        refuse_unknown("pool", pool, _POOLS)
        if as_published and pool != "max":
            raise UserError(
                f"the published code pools with 'max', got {pool!r}; leave out pool or as_published"
            )
        self.pool, self.as_published = _POOLS[pool], as_published
        self.h = nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))
        self.g = nn.Sequential(nn.Linear(2 * dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))
        self.norm = nn.LayerNorm(dim) if norm else nn.Identity()
        if zero_start:
            start_from_zero(self.g[-1])

    def forward(self, items: Sets, context: Context = None) -> Sets:
        rows = items if context is None else torch.cat([items, context], dim=1)
        if self.as_published:
            pooled = self.h(F.relu(self.pool(rows, items.shape[1])))
        else:
            pooled = self.pool(self.h(rows), items.shape[1])
        adapted: Tensor = self.norm(items + self.g(torch.cat([items, pooled], dim=-1)))
        return adapted
