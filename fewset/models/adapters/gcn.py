"""A graph convolutional network over the set (Ye et al., CVPR 2020, sections 4.2 and B.3)."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from fewset.core.errors import UserError, refuse_unknown
from fewset.models.adapters import Context, Sets, register_adapter, start_from_zero
from fewset.models.method_info import MethodInfo
from fewset.models.similarity import negative_squared_euclidean


def similarity_graph(nodes: Float[Tensor, "B S D"]) -> Float[Tensor, "B S S"]:
    """exp(-|a - b|² / mean): 1 for a node with itself, 1/e at the mean squared distance of the set's pairs.

    Measured by the set's own mean, the graph is the same for embeddings of any scale.
    """
    size = nodes.shape[1]
    # The clamp takes away what rounding leaves below 0 between equal nodes.
    distance = (-negative_squared_euclidean(nodes, nodes)).clamp(min=0)
    distance = distance * (1 - torch.eye(size, dtype=nodes.dtype, device=nodes.device))
    mean = distance.sum(dim=(1, 2), keepdim=True) / max(1, size * (size - 1))
    return torch.exp(-distance / mean.clamp(min=torch.finfo(nodes.dtype).tiny))


@register_adapter("gcn")
class GCN(nn.Module):
    """Two propagations Φ ← ReLU(S Φ W + b), d → 4d → d, with S = D^-1/2 (A + I) D^-1/2.

    `graph` says what A is:

    * "labels": 1 between items of one class. Where each class has one item (one shot, or shots averaged
      before the adaptation) this graph has no edges, S is the identity, and the function is the same small
      network on each item by itself. Items without a label (the context, or all if no labels are given)
      have no edges either, so the context changes nothing.
    * "similarity": `similarity_graph` over the items and the context. Labels are not used.

    `residual` is ψ = φ + S ReLU(S Φ W₁ + b₁) W₂ + b₂: the input is added and the last ReLU is missing. This
    is the arithmetic of the authors' code, so `as_published` says the same. (Theirs normalises as
    D^-1 (A + I), which is the same for a label graph.) The dropout after the first propagation is theirs,
    too, and is not in the paper.

    `zero_start`, which is in neither, goes with `residual`: W₂ and b₂ begin as zero, so the function is the
    identity at the start. `norm`, which is in neither, is a LayerNorm of the result, as in FEAT.
    """

    about = MethodInfo("a graph convolution over the set", paper="Ye et al., CVPR 2020", trained=True)

    uses_labels = True

    def __init__(
        self,
        dim: int,
        graph: str = "labels",
        dropout: float = 0.5,
        as_published: bool = False,
        residual: bool = False,
        zero_start: bool = False,
        norm: bool = False,
    ) -> None:
        super().__init__()
        refuse_unknown("graph", graph, ("labels", "similarity"))
        self.graph, self.residual = graph, residual or as_published
        if zero_start and not self.residual:
            raise UserError("zero_start of gcn needs residual = true: the paper's formula has no such start")
        self.first, self.second = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(dim) if norm else nn.Identity()
        if zero_start:
            start_from_zero(self.second)

    def forward(self, items: Sets, context: Context = None, labels: Int[Tensor, "B S"] | None = None) -> Sets:
        if self.graph == "similarity":
            nodes = items if context is None else torch.cat([items, context], dim=1)
            edges = similarity_graph(nodes)
        else:
            nodes = items
            own = torch.arange(items.shape[1], device=items.device).expand(len(items), -1)
            classes = own if labels is None else labels
            edges = (classes.unsqueeze(-1) == classes.unsqueeze(-2)).to(items.dtype)
        scale = edges.sum(dim=-1, keepdim=True).rsqrt()
        spread = scale * edges * scale.mT
        hidden = self.dropout(F.relu(self.first(spread @ nodes)))
        adapted: Tensor = self.second(spread @ hidden)[:, : items.shape[1]]
        result: Tensor = self.norm(items + adapted if self.residual else F.relu(adapted))
        return result
