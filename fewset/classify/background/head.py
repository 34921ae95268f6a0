"""FEAT with a ridge head, trained on a background, and whether it pays."""

from dataclasses import dataclass
from math import log

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from fewset.classify.heads import Solution, solved_episode
from fewset.classify.heads.ridge import RidgeHead
from fewset.models.adapters.attention import Attention
from fewset.models.backbones.features import FeatureInput
from fewset.models.model import FewShotModel
from fewset.models.regression import class_means
from fewset.tasks.scores import Difference

_START = 7.5
"""The factor of the cosines at first: they then count about as much as the ridge head's logits."""


@dataclass(frozen=True)
class HeldOutComparison:
    """The gain of FEAT on tasks of held-out classes of the background, and the share of it due to the set.

    FEAT is trained twice: on the set of a task's prototypes, and on each prototype as a set of one. The set
    is used where it adds.
    """

    head: str
    classes: int
    held_out: int
    way: int
    shot: int
    tasks: int
    alone: float
    """The accuracy of the classifier's head without FEAT."""
    adapted: float
    """That with FEAT, on the set or on sets of one, whichever is used."""
    gain: float
    ci95: float
    set_adds: float
    """The accuracy of FEAT on the set less that of FEAT on sets of one."""
    set_ci95: float

    @property
    def uses_set(self) -> bool:
        """Whether FEAT sees the set: where the 95 % interval of what that adds lies above 0."""
        return self.set_adds > self.set_ci95

    @property
    def kept(self) -> bool:
        """Whether FEAT is used: where the 95 % interval of the gain lies above 0."""
        return self.gain > self.ci95

    @property
    def in_words(self) -> str:
        decision = "not kept" if not self.kept else "kept" if self.uses_set else "kept without the set"
        return (
            f"background of {self.classes} classes, {self.held_out} of them held out, {self.way}-way "
            f"{self.shot}-shot: FEAT {100 * self.adapted:.1f} %, {self.head} {100 * self.alone:.1f} %, "
            f"{Difference(self.gain, self.ci95)}: {decision}; "
            f"the set adds {Difference(self.set_adds, self.set_ci95)} on held-out classes"
        )


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
        return solved_episode(self, support, mask).logits(query)

    def solve(self, rows: Float[Tensor, "T S D"], membership: Float[Tensor, "T S N"]) -> Solution:
        base = self.base.solve(rows, membership)
        shifted = F.normalize(rows - base.shift.unsqueeze(1), dim=-1)
        prototypes = F.normalize(class_means(shifted, membership), dim=-1).to(self.log_gain)
        sets = prototypes if self.uses_set else prototypes.flatten(0, 1).unsqueeze(1)
        adapted = F.normalize(self.adapter(sets).view_as(prototypes), dim=-1)
        return Solution(base.shift, base.weight + (self.log_gain.exp() * adapted.mT).to(rows), base.bias)

    def finished(self) -> "AdaptedHead":
        """The same head for use without training, in double precision as all heads."""
        self.requires_grad_(False)
        self.eval()
        self.double()
        return self


@dataclass(frozen=True, eq=False)
class Background:
    """The result of training on other classes; `head` is None where FEAT is not ahead."""

    comparison: HeldOutComparison
    head: AdaptedHead | None
