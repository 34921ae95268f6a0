"""A bidirectional LSTM over the set, read as a sequence (Ye et al., CVPR 2020, sections 4.2 and B.1)."""

import torch
from torch import Tensor, nn

from fewset.core.errors import UserError
from fewset.models.adapters import Context, Sets, register_adapter
from fewset.models.method_info import MethodInfo


@register_adapter("bilstm")
class BiLSTM(nn.Module):
    """ψ = φ + [forward; backward], each direction half as wide as the embedding.

    Deviation: the paper's formula is ψ = φ + forward + backward, which needs directions as wide as the
    embedding. Its table of parameters and the authors' code have the half-width ones of here.

    The result depends on the order of the set. The context is read after the items, so it reaches them
    through the backward direction. The initial state is zero; the authors' published code draws a random
    one at every call, so that two evaluations of one task differ.

    With `zero_start`, which is not the paper's, the weights of the candidates for the cells begin as zero, so
    the cells stay empty and the function is the identity at the start.

    With `norm`, which is not the paper's, a LayerNorm of the result comes last, as in FEAT.
    """

    about = MethodInfo(
        "a bidirectional LSTM over the set, in its order", paper="Ye et al., CVPR 2020", trained=True
    )

    equivariant = False

    def __init__(self, dim: int, zero_start: bool = False, norm: bool = False) -> None:
        super().__init__()
        if dim % 2:
            raise UserError(f"bilstm needs an even embedding size, got {dim}: each direction makes one half")
        self.lstm = nn.LSTM(dim, dim // 2, batch_first=True, bidirectional=True)
        self.norm = nn.LayerNorm(dim) if norm else nn.Identity()
        if zero_start:
            for parameter in self.lstm.parameters():  # four parts each: input, forget, candidate, output
                nn.init.zeros_(parameter.data.chunk(4)[2])

    def forward(self, items: Sets, context: Context = None) -> Sets:
        sequence = items if context is None else torch.cat([items, context], dim=1)
        hidden: Tensor = self.lstm(sequence)[0]
        adapted: Tensor = self.norm(items + hidden[:, : items.shape[1]])
        return adapted
