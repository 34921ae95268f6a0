"""The Transformer of FEAT: self-attention over the set (Ye et al., CVPR 2020, sections 4.2 and B.4)."""

from math import inf, sqrt

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from fewset.core.errors import UserError
from fewset.models.adapters import Context, Sets, register_adapter, start_from_zero
from fewset.models.method_info import MethodInfo


class AttentionLayer(nn.Module):
    """ψ = LayerNorm(φ + dropout(W_FC attention(φ))), multi-head, no feed-forward part.

    As in the authors' runs: no bias in W_Q, W_K, W_V; a bias in W_FC; post-norm. Each head has the full
    width `dim`, so one head gives the paper's number of parameters (16,576 at 64-d).

    With `residual` ψ = φ + dropout(W_FC attention(LayerNorm(φ))), with the same parameters.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        attention_dropout: float,
        dropout: float,
        zero_start: bool,
        mean_start: float,
        residual: bool,
    ) -> None:
        super().__init__()
        self.heads, self.residual = heads, residual
        self.attention_dropout = attention_dropout
        self.to_query = nn.Linear(dim, heads * dim, bias=False)
        self.to_key = nn.Linear(dim, heads * dim, bias=False)
        self.to_value = nn.Linear(dim, heads * dim, bias=False)
        self.to_output = nn.Linear(heads * dim, dim)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(dim)
        for projection in (self.to_query, self.to_key, self.to_value):
            nn.init.normal_(projection.weight, std=sqrt(2 / (dim + dim)))
        nn.init.xavier_normal_(self.to_output.weight)
        if zero_start:
            start_from_zero(self.to_output)
        if mean_start:
            self._start_from_mean(mean_start)

    def _start_from_mean(self, sharpness: float) -> None:
        """Set W_FC attention(φ) to the mean of the set, weighted by the likeness to φ (dot products)."""
        one = torch.eye(self.norm.normalized_shape[0])
        with torch.no_grad():
            for projection in (self.to_query, self.to_key):
                projection.weight.copy_(sqrt(sharpness) * one.repeat(self.heads, 1))
            self.to_value.weight.copy_(one.repeat(self.heads, 1))
            self.to_output.weight.copy_(one.repeat(1, self.heads) / self.heads)
            self.to_output.bias.zero_()

    def forward(
        self, items: Float[Tensor, "B S D"], attended: Float[Tensor, "B P D"]
    ) -> Float[Tensor, "B S D"]:
        if self.residual:
            result: Tensor = items + self._added(self.norm(items), self.norm(attended))
        else:
            result = self.norm(items + self._added(items, attended))
        return result

    def _added(
        self, items: Float[Tensor, "B S D"], attended: Float[Tensor, "B P D"]
    ) -> Float[Tensor, "B S D"]:
        query, key, value = (
            rows.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for rows in (self.to_query(items), self.to_key(attended), self.to_value(attended))
        )
        values = F.scaled_dot_product_attention(
            query, key, value, dropout_p=self.attention_dropout if self.training else 0.0
        )
        added: Tensor = self.dropout(self.to_output(values.transpose(1, 2).flatten(2)))
        return added


@register_adapter("attention")
class Attention(nn.Module):
    """FEAT. The context joins the set as queries, keys and values, and is dropped from the result.

    So each layer adapts the context like the items; the last one, whose context rows are not used, adapts the
    items alone.

    Three options are not the paper's. They are for weights that are good without an adapter, so that training
    need not unlearn a random one first:

    * `zero_start`: W_FC starts as zero, so that the layer starts as the LayerNorm of the embeddings.
    * `mean_start`, if it is above 0: the layer starts as the LayerNorm of φ + m(φ), where m(φ) is the mean of
      the set, weighted by softmax(`mean_start` φᵀφ' / √D). For sets with unlabelled items.
    * `residual`: attention sees the LayerNorm of the embeddings, and its output is added to the embeddings.
      With `zero_start` this is the identity at the start.
    """

    about = MethodInfo("self-attention over the set", paper="FEAT, Ye et al., CVPR 2020", trained=True)

    def __init__(
        self,
        dim: int,
        heads: int = 1,
        layers: int = 1,
        attention_dropout: float = 0.1,
        dropout: float = 0.5,
        zero_start: bool = False,
        mean_start: float = 0.0,
        residual: bool = False,
    ) -> None:
        super().__init__()
        if heads < 1 or layers < 1:
            raise UserError(f"heads and layers of attention are {heads} and {layers}, expected 1 or more")
        if not 0 <= mean_start < inf or (mean_start and zero_start):
            raise UserError(
                f"mean_start of attention is {mean_start}, zero_start is {zero_start}; expected one of them "
                "at most, and a mean_start that is not below 0"
            )
        self.layers = nn.ModuleList(
            AttentionLayer(dim, heads, attention_dropout, dropout, zero_start, mean_start, residual)
            for _ in range(layers)
        )

    def forward(self, items: Sets, context: Context = None) -> Sets:
        joined = items if context is None else torch.cat([items, context], dim=1)
        for layer in self.layers[:-1]:
            joined = layer(joined, joined)
        adapted: Tensor = self.layers[-1](joined[:, : items.shape[1]], joined)
        return adapted
