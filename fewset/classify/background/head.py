"""FEAT with a ridge head, trained on a background."""

from math import log

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from fewset.classify.heads import ClassifierHead, Solution
from fewset.classify.heads.ridge import RidgeHead
from fewset.models.adapters.attention import Attention
from fewset.models.backbones.features import FeatureInput
from fewset.models.model import FewShotModel
from fewset.models.regression import class_means, episode_membership

_START = 7.5
"""The factor of the cosines at first: they then count about as much as the ridge head's logits."""


class AdaptedHead(FewShotModel):
    """The logits of the ridge head, plus the cosines to prototypes that FEAT has adapted to the task.

    A model to train on prepared rows, and then a head of the classifier. It knows the axes of its encoder's
    features, so unlike the other heads it sees a rotation of the rows. It starts as the ridge head with the
    cosines to the plain prototypes. Without `uses_set` FEAT adapts each prototype by itself: the same
    function on sets of one.
    """

    rotation_equivariant = False
    power = RidgeHead.power

    def __init__(self, dim: int, uses_set: bool = True) -> None:
        super().__init__(FeatureInput(dim), Attention(dim, zero_start=True), nn.Identity())
        self.uses_set = uses_set
        self.base = RidgeHead()
        self.log_gain = nn.Parameter(torch.tensor([log(_START)]))

    def forward(
        self,
        support: Float[Tensor, "T N K D"],
        query: Float[Tensor, "T M D"],
        context: Shaped[Tensor, "T C D"] | None = None,  # noqa: ARG002
        mask: Bool[Tensor, "T N K"] | None = None,
    ) -> Float[Tensor, "T M N"]:
        shift, weight, bias = self._solved(support.flatten(1, 2), episode_membership(support, mask))
        return torch.baddbmm(bias.unsqueeze(1), F.normalize(query - shift.unsqueeze(1), dim=-1), weight)

    @torch.inference_mode()
    def solve(self, rows: Float[np.ndarray, "T S D"], membership: Float[np.ndarray, "T S N"]) -> Solution:
        solved = self._solved(torch.tensor(rows), torch.tensor(membership))
        return Solution(*(part.numpy() for part in solved))

    def _solved(
        self, rows: Float[Tensor, "T S D"], membership: Float[Tensor, "T S N"]
    ) -> tuple[Float[Tensor, "T D"], Float[Tensor, "T D N"], Float[Tensor, "T N"]]:
        """The parts of a `Solution`, through which training finds the gradients of FEAT."""
        base = self.base.solve(rows.cpu().numpy(), membership.cpu().numpy())
        shift, weight, bias = (torch.from_numpy(part).to(rows) for part in base)
        shifted = F.normalize(rows - shift.unsqueeze(1), dim=-1)
        prototypes = F.normalize(class_means(shifted, membership), dim=-1).to(self.log_gain)
        sets = prototypes if self.uses_set else prototypes.flatten(0, 1).unsqueeze(1)
        adapted = F.normalize(self.adapter(sets).view_as(prototypes), dim=-1)
        return shift, weight + (self.log_gain.exp() * adapted.mT).to(rows), bias

    def finished(self) -> "AdaptedHead":
        """The same head for use without training, in double precision as all heads."""
        self.requires_grad_(False)
        self.eval()
        self.double()
        return self


def episode_logits(
    head: ClassifierHead, support: Float[Tensor, "T N K D"], query: Float[Tensor, "T M D"]
) -> Float[Tensor, "T M N"]:
    """The answers of a head to episodes of prepared rows."""
    rows, members = support.flatten(1, 2), episode_membership(support)
    return torch.from_numpy(head.solve(rows.numpy(), members.numpy()).logits(query.numpy()))
