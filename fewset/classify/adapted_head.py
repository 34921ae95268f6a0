"""FEAT with a ridge head: prototypes that are adapted to each other, beside a ridge regression."""

from math import log

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from fewset.classify.heads import Solution, find_classifier_head, solved_episode
from fewset.models.adapters.attention import Attention
from fewset.models.backbones.features import FeatureInput
from fewset.models.model import FewShotModel
from fewset.models.regression import class_means

_START = 7.5
"""The factor of the cosines at first: they then count about as much as the ridge head's logits."""


class AdaptedHead(FewShotModel):
    """The logits of the ridge head, plus the cosines to prototypes that FEAT has adapted to the task.

    A model to train on prepared rows, and then a head of the classifier. It knows the axes of its encoder's
    features, so unlike the other heads it sees a rotation of the rows. It starts as the ridge head with the
    cosines to the plain prototypes. Beside the default head FEAT gained less, on birds 1.6 points instead of
    2.8 at 20-way 1-shot.
    """

    rotation_equivariant = False

    def __init__(self, dim: int) -> None:
        super().__init__(FeatureInput(dim), Attention(dim, zero_start=True), nn.Identity())
        self.base = find_classifier_head("ridge")
        self.log_gain = nn.Parameter(torch.tensor([log(_START)]))

    @property
    def power(self) -> float:
        return self.base.power

    def forward(
        self,
        support: Float[Tensor, "T N K D"],
        query: Float[Tensor, "T M D"],
        context: Shaped[Tensor, "T C D"] | None = None,  # noqa: ARG002
        mask: Bool[Tensor, "T N K"] | None = None,
    ) -> Float[Tensor, "T M N"]:
        return solved_episode(self, support, mask).logits(query)

    def solve(self, rows: Float[Tensor, "T S D"], membership: Float[Tensor, "T S N"]) -> Solution:
        base = self.base.solve(rows, membership)
        shifted = F.normalize(rows - base.shift.unsqueeze(1), dim=-1)
        prototypes = F.normalize(class_means(shifted, membership), dim=-1)
        adapted = F.normalize(self.adapter(prototypes.to(self.log_gain)), dim=-1)
        return Solution(base.shift, base.weight + (self.log_gain.exp() * adapted.mT).to(rows), base.bias)

    def finished(self) -> "AdaptedHead":
        """Itself, to be used and no longer trained, in double precision as all heads are used."""
        self.requires_grad_(False)
        self.eval()
        self.double()
        return self
