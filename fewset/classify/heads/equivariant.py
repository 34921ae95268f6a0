"""The equivariant head: ridge and logistic regression, balanced by 15 scalars and no matrix.

No axis of the embedding has a number of its own, so that what was learned on one encoder's features fits any
embedding size, and cannot hold what its training classes look like. A task of N ways and K shots (their mean
where they differ) is described by f = (1, log(N / 10), log(K / 3), alikeness - 1/2). Alikeness is the mean
product of the means of two classes: birds are more alike than objects, and drawings than photographs.

1. x is brought to the power 1/2 and to length 1, freed of a share of the support's mean, brought to length 1;
   the share goes from one number to another where the alikeness passes 1/2;
2. a ridge regression of strength e^(strength · f), scaled by (strength + K / 2) / sqrt(K);
3. a logistic regression of scikit-learn's C = e^penalty without intercept, scaled to weights of length 1;
4. the two are mixed: the share of the second is (1 - 1 / K) (1 - sigmoid(mix · f)), none at one shot, where
   it gained nothing on validation classes; and the logits are multiplied by e^(scale · f).

Prototypes that push each other apart by attention were tried beside these and gained nothing on validation
classes, so they are left out.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from fewset.classify.heads import Solution, register_classifier_head
from fewset.models.regression import class_means, logistic_regression, ridge
from fewset.runtime.parsing import parse

SHIPPED = Path(__file__).with_name("equivariant.json")
"""The learned scalars, with the command, seed, data and encoder that they come from."""
STEPS = 16
"""Of the logistic regression: it is not run to the end, which makes no difference on validation classes."""

_STEEP = 100.0  # how soon the share of the mean changes with the alikeness

Weights = tuple[float, float, float, float]
"""Of the four numbers that describe a task."""


@dataclass(frozen=True)
class Scalars:
    """What the head learns; the values here are the start: ridge and logistic regression in equal parts."""

    centring: tuple[float, float] = (1.0, 0.85)
    """The share of the mean where classes are little alike, and where they are much."""
    penalty: float = 2.3
    strength: Weights = (0.0, 0.0, 0.0, 0.0)
    mix: Weights = (0.0, 0.0, 0.0, 0.0)
    scale: Weights = (2.0, 0.0, 0.0, 0.0)

    def tensors(self, like: Tensor | None = None) -> dict[str, Tensor]:
        """By name, in the precision of another tensor and on its device."""
        values = {name: torch.tensor(value, dtype=torch.float64) for name, value in asdict(self).items()}
        return values if like is None else {name: value.to(like) for name, value in values.items()}


def shipped_scalars() -> Scalars:
    """The scalars that come with the package."""
    described = json.loads(SHIPPED.read_text(encoding="utf-8"))
    return parse(Scalars, described["scalars"], what="file equivariant.json")


@register_classifier_head("equivariant")
class EquivariantHead:
    """The head with given scalars, by default the shipped ones."""

    power = 0.5

    def __init__(self, scalars: Scalars | None = None) -> None:
        self.scalars = shipped_scalars() if scalars is None else scalars

    def solve(self, rows: Float[Tensor, "T S D"], membership: Float[Tensor, "T S N"]) -> Solution:
        return solve(self.scalars.tensors(rows), rows, membership)


def solve(
    scalars: dict[str, Tensor], rows: Float[Tensor, "T S D"], membership: Float[Tensor, "T S N"]
) -> Solution:
    """The head as a function of its scalars too, so that they can be learned."""
    way = membership.shape[2]
    shots = membership.sum(dim=(1, 2)) / way
    means = class_means(rows, membership)
    middle = means.mean(dim=1)
    alike = alikeness(means) - 0.5
    task = torch.stack(
        [torch.ones_like(shots), torch.full_like(shots, way / 10).log(), (shots / 3).log(), alike], dim=-1
    )
    strength = (task @ scalars["strength"]).exp()
    second = ((1 - 1 / shots) * (-task @ scalars["mix"]).sigmoid()).view(-1, 1, 1)
    scale = (task @ scalars["scale"]).exp().view(-1, 1, 1)

    broad, narrow = scalars["centring"].unbind()
    share = torch.lerp(broad, narrow, (_STEEP * alike).sigmoid())
    shift = share.unsqueeze(1) * middle
    counts = membership.sum(dim=-1, keepdim=True)
    rows = F.normalize(rows - shift.unsqueeze(1), dim=-1) * counts
    regression = ridge(rows, membership, strength)
    regression = regression * ((strength + shots / 2) / shots.sqrt()).view(-1, 1, 1)
    logistic = logistic_regression(rows, membership, scalars["penalty"].exp(), STEPS)
    length = logistic.square().mean(dim=2).sum(dim=1).clamp_min(torch.finfo(rows.dtype).tiny).sqrt()
    weight = scale * ((1 - second) * regression + second * logistic / length.view(-1, 1, 1))
    return Solution(shift, weight, weight.new_zeros(len(weight), way))


def alikeness(means: Float[Tensor, "T N D"]) -> Float[Tensor, "T"]:
    """The mean product of the means of two classes; it hangs neither on the ways nor on the shots."""
    way = means.shape[1]
    pairs = means.sum(dim=1).square().sum(dim=-1) - means.square().sum(dim=(1, 2))
    return pairs / (way * (way - 1))
