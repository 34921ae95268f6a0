"""Heads of the classifier: a few labelled rows of features in, a linear map out. One file each.

A head answers one task with any number of shots a class, and many such tasks at once. Its `power` says how
features are prepared, row by row (`signed_power`); `solve` takes prepared rows (T, S, D) of `T` tasks and the
membership (T, S, N) of each row: 1 in the column of its class, and zeros throughout for a row that does not
count (shots that differ by task; the photo that is left out). Every class has at least one row that counts.

A head commutes with rotations of the prepared rows, and does not depend on their order: a contract test
holds every registered head to both. So a task of `S` rows can be solved in `S` dimensions. A head that is not
registered, but made for one encoder's features, says `rotation_equivariant = False`.

Unlike the heads of `fewset.models`, which are layers of a network, these learn from the support alone and
have nothing that hangs on the embedding size.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fewset.runtime.registry import Registry
from fewset.tasks.episode import class_major_labels

DEFAULT = "equivariant"


class Solution(NamedTuple):
    """The classifiers of `T` tasks: rows are shifted, brought to length 1, and mapped to logits."""

    shift: Float[Tensor, "T D"]
    weight: Float[Tensor, "T D N"]
    bias: Float[Tensor, "T N"]

    def logits(self, rows: Float[Tensor, "T M D"]) -> Float[Tensor, "T M N"]:
        """Logits of prepared rows."""
        shifted = F.normalize(rows - self.shift.unsqueeze(1), dim=-1)
        return torch.baddbmm(self.bias.unsqueeze(1), shifted, self.weight)


@runtime_checkable
class ClassifierHead(Protocol):
    """What the classifier asks of a head."""

    @property
    def power(self) -> float: ...

    def solve(self, rows: Float[Tensor, "T S D"], membership: Float[Tensor, "T S N"]) -> Solution: ...


CLASSIFIER_HEADS: Registry[Callable[[], ClassifierHead]] = Registry("classifier head", __name__)
register_classifier_head = CLASSIFIER_HEADS.register


def find_classifier_head(name: str) -> ClassifierHead:
    """The head of that name; "auto" is the one that measured best."""
    return CLASSIFIER_HEADS[resolved_name(name)]()


def resolved_name(name: str) -> str:
    """The name of a head, with that of the default for "auto"."""
    return DEFAULT if name == "auto" else name


def membership(labels: Int[Tensor, "*rows"], way: int, dtype: torch.dtype) -> Float[Tensor, "*rows {way}"]:
    """1 in the column of each row's class."""
    return F.one_hot(labels, way).to(dtype)


def episode_membership(
    support: Float[Tensor, "T N K D"], mask: Bool[Tensor, "T N K"] | None = None
) -> Float[Tensor, "T NK N"]:
    """The membership of an episode's shots, in class-major order; with a mask, of those that it marks."""
    tasks, way, shot = support.shape[:3]
    result = membership(class_major_labels(tasks, way, shot, support.device), way, support.dtype)
    return result if mask is None else result * mask.flatten(1).unsqueeze(-1)


def solved_episode(
    head: ClassifierHead, support: Float[Tensor, "T N K D"], mask: Bool[Tensor, "T N K"] | None = None
) -> Solution:
    """What a head makes of the prepared shots of an episode."""
    return head.solve(support.flatten(1, 2), episode_membership(support, mask))


def signed_power(
    features: Float[Tensor, "*rows D"], power: float | Float[Tensor, ""]
) -> Float[Tensor, "*rows D"]:
    """Each row as `sign(x) |x|^power`, at length 1: with a power below 1 a few large numbers decide less."""
    raised = features.abs().clamp_min(torch.finfo(features.dtype).tiny).pow(power) * features.sign()
    return F.normalize(raised, dim=-1)


def class_means(rows: Float[Tensor, "T S D"], members: Float[Tensor, "T S N"]) -> Float[Tensor, "T N D"]:
    """The mean of each class's rows."""
    return (members / members.sum(dim=1, keepdim=True)).mT @ rows


def centred(
    rows: Float[Tensor, "T S D"], members: Float[Tensor, "T S N"], share: float | Float[Tensor, ""] = 1.0
) -> tuple[Float[Tensor, "T S D"], Float[Tensor, "T D"]]:
    """The rows less a share of their mean, at length 1, and what was taken off.

    Rows that do not count are 0. The mean is that of the class means, so that a class with many shots is not
    the origin.
    """
    shift = share * class_means(rows, members).mean(dim=1)
    counts = members.sum(dim=-1, keepdim=True)
    return F.normalize(rows - shift.unsqueeze(1), dim=-1) * counts, shift


def row_balance(members: Float[Tensor, "T S N"]) -> Float[Tensor, "T S 1"]:
    """The root of each row's weight, with which all classes count alike; 0 for rows that do not count."""
    shots = members.sum(dim=1, keepdim=True)
    return (members @ (shots.mean(dim=-1, keepdim=True) / shots).mT).sqrt()


def ridge(
    rows: Float[Tensor, "T S D"],
    members: Float[Tensor, "T S N"],
    strength: Float[Tensor, "T"],
) -> Float[Tensor, "T D N"]:
    """The weights W that minimise `Σ |row W - target|² + strength |W|²`, each class counting alike.

    The targets are the membership. A row counts by the mean number of shots over that of its class, so it
    is the plain ridge regression where all classes have as many. Solved in as few dimensions as there are.
    """
    balance = row_balance(members)
    scaled, targets = rows * balance, members * balance
    dual = rows.shape[1] <= rows.shape[2]
    gram = scaled @ scaled.mT if dual else scaled.mT @ scaled
    identity = torch.eye(gram.shape[-1], dtype=rows.dtype, device=rows.device)
    factor = torch.linalg.cholesky(gram + strength.view(-1, 1, 1) * identity)
    if dual:
        return scaled.mT @ torch.cholesky_solve(targets, factor)
    return torch.cholesky_solve(scaled.mT @ targets, factor)
