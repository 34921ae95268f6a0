"""Feature map reconstruction (FRN): the map of a query is reconstructed from those of each class."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fewset.models.heads import Logits, Mask, QueryMaps, ShotMaps, register_head
from fewset.models.method_info import MethodInfo
from fewset.models.regression import cholesky


def reconstructions(
    query: Float[Tensor, "T R D"], pools: Float[Tensor, "T N S D"], strength: Float[Tensor, "T N"]
) -> Float[Tensor, "T N R D"]:
    """The rows Q reconstructed from each pool S by ridge regression: Q Sᵀ (S Sᵀ + λI)⁻¹ S.

    If a pool has more rows than dimensions, it is Q (SᵀS + λI)⁻¹ SᵀS, the same in fewer dimensions.
    """
    dual = pools.shape[2] <= pools.shape[3]
    gram = pools @ pools.mT if dual else pools.mT @ pools
    identity = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    factor = cholesky(gram + strength[..., None, None] * identity)
    if not dual:
        return query.unsqueeze(1) @ torch.cholesky_solve(gram, factor)
    return (query.unsqueeze(1) @ pools.mT) @ torch.cholesky_solve(pools, factor)


@register_head("frn")
class FrnHead(nn.Module):
    """Feature map reconstruction networks (Wertheimer et al., 2021), on maps; wants `average="post"`.

    The K P places (P = H W) of the shots of a class are the rows of S_n, those of a query the rows of Q. The
    query is reconstructed by ridge regression, Q̄_n = ρ Q S_nᵀ (S_n S_nᵀ + λ_n I)⁻¹ S_n with
    λ_n = exp(α) K P / D and ρ = exp(β), and the logit is -γ ‖Q - Q̄_n‖² / P. α, β and γ are learned. Maps are
    divided by √D first, as the authors do for their ResNet-12, so that γ fits any backbone at the start.

    Deviation: without the authors' auxiliary loss, which makes the shots of different classes orthogonal.
    """

    about = MethodInfo(
        "reconstruction of the query's map from those of each class",
        paper="FRN, Wertheimer et al., CVPR 2021",
        takes="maps",
        every_shot=True,
    )

    def __init__(self, dim: int, scale: float = 1.0, log_strength: float = 0.0) -> None:
        super().__init__()
        self.dim = dim
        self.log_strength = nn.Parameter(torch.tensor(log_strength))
        self.log_rescaling = nn.Parameter(torch.tensor(0.0))
        self.scale = nn.Parameter(torch.tensor(scale))

    def forward(self, support: ShotMaps, query: QueryMaps, mask: Mask = None) -> Logits:
        tasks, way, shot, height, width, dim = support.shape
        if mask is None:
            counted = support.new_full((tasks, way), shot)
        else:
            counted = mask.sum(dim=2).to(support.dtype)
            support = support.masked_fill(~mask[..., None, None, None], 0)
        strength = self.log_strength.exp() * counted * (height * width / dim)
        pools, rows = support.flatten(2, 4) / dim**0.5, query.flatten(1, 3) / dim**0.5
        made = self.log_rescaling.exp() * reconstructions(rows, pools, strength)
        errors = (made - rows.unsqueeze(1)).square().sum(dim=-1)
        distances = errors.view(tasks, way, query.shape[1], height * width).mean(dim=-1)
        logits: Tensor = -self.scale * distances.mT
        return logits
