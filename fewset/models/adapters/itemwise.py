"""A network on each item by itself, as large as FEAT's attention."""

import torch.nn.functional as F
from torch import Tensor, nn

from fewset.models.adapters import Context, Sets, register_adapter, start_from_zero
from fewset.models.method_info import MethodInfo


@register_adapter("itemwise")
class Itemwise(nn.Module):
    """ψ = LayerNorm(φ + dropout(W₂ ReLU(W₁ φ))), a control: it never looks at the set.

    It has as many parameters as FEAT with one head and one layer: 4 D² + 3 D. With `zero_start` W₂ begins as
    zero, so what is learned starts from the LayerNorm of the embeddings, or without `norm` from themselves.
    """

    about = MethodInfo(
        "a network of FEAT's size on each item, blind to its set", paper="a control", trained=True
    )

    def __init__(self, dim: int, dropout: float = 0.5, zero_start: bool = False, norm: bool = True) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(dim, 2 * dim, bias=False), nn.Linear(2 * dim, dim)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(dim) if norm else nn.Identity()
        if zero_start:
            start_from_zero(self.second)

    def forward(self, items: Sets, context: Context = None) -> Sets:  # noqa: ARG002
        adapted: Tensor = self.norm(items + self.dropout(self.second(F.relu(self.first(items)))))
        return adapted
