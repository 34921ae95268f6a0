"""DN4: every place of a query looks for its nearest places among all those of a class."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from fewset.models.heads import Logits, Mask, QueryMaps, ShotMaps, above_zero, at_least, register_head
from fewset.models.method_info import MethodInfo


@register_head("dn4")
class Dn4Head(nn.Module):
    """Deep nearest neighbour neural network (Li et al., 2019), on maps; wants `average="post"`.

    The P = H W places of a query q are compared with all K P places of the shots of a class, and the logit is
    the sum over the places of q of the cosines with their k = `neighbours` nearest, divided by the
    temperature: l_n = Σ_p Σ_{j in nearest k} cos(q_p, s_nj) / temperature.

    Deviations: it is the mean over places and neighbours, not the sum, so that a temperature fits maps of any
    size; a class of fewer than k places has the mean over those.
    """

    about = MethodInfo(
        "nearest places of the maps of a class",
        paper="DN4, Li et al., CVPR 2019",
        takes="maps",
        every_shot=True,
    )

    def __init__(self, dim: int, neighbours: int = 3, temperature: float = 0.1) -> None:
        super().__init__()
        at_least(1, neighbours=neighbours)
        above_zero(temperature=temperature)
        self.dim, self.neighbours, self.temperature = dim, neighbours, temperature

    def forward(self, support: ShotMaps, query: QueryMaps, mask: Mask = None) -> Logits:
        tasks, way, shot, height, width, _ = support.shape
        places = height * width
        shots = F.normalize(support, dim=-1).flatten(1, 4)
        found = F.normalize(query, dim=-1).flatten(1, 3) @ shots.mT
        cosines = found.view(tasks, query.shape[1], places, way, shot * places)
        if mask is None:
            nearest = cosines.topk(min(self.neighbours, shot * places), dim=-1).values.mean(dim=-1)
        else:
            nearest = self._nearest_of(cosines, mask.repeat_interleave(places, dim=2))
        return nearest.mean(dim=2) / self.temperature

    def _nearest_of(
        self, cosines: Float[Tensor, "T M P N KP"], mask: Bool[Tensor, "T N KP"]
    ) -> Float[Tensor, "T M P N"]:
        """The mean of the largest cosines with the places that count, or with all where these are fewer."""
        cosines = cosines.masked_fill(~mask[:, None, None], -torch.inf)
        values = cosines.topk(min(self.neighbours, cosines.shape[-1]), dim=-1).values
        counted = values > -torch.inf
        return values.masked_fill(~counted, 0).sum(dim=-1) / counted.sum(dim=-1)
