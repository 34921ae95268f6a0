"""Heads of the classifier: a few labelled rows of features in, a linear map out. One file each.

A head answers one task with any number of shots a class, and many such tasks at once. Its `power` says how
features are prepared, row by row (`signed_power`); `solve` takes prepared rows (T, S, D) of `T` tasks and the
membership (T, S, N) of each row: 1 in the column of its class, and zeros throughout for a row that does not
count (shots that differ by task; the photo that is left out). Every class has at least one row that counts.

A head commutes with rotations of the prepared rows, and does not depend on their order: a contract test
holds every registered head to both. So a task of `S` rows can be solved in `S` dimensions. A head that is not
registered, but made for one encoder's features, says `rotation_equivariant = False`.

Unlike the heads of `fewset.models`, which are layers of a network, these learn from the support alone and
have no parameters of the embedding size.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from fewset.core.registry import Registry
from fewset.models.layers.transform import raised
from fewset.models.regression import class_means, episode_membership

DEFAULT = "ridge"


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


def solved_episode(
    head: ClassifierHead, support: Float[Tensor, "T N K D"], mask: Bool[Tensor, "T N K"] | None = None
) -> Solution:
    """The solution of a head for the prepared shots of an episode."""
    return head.solve(support.flatten(1, 2), episode_membership(support, mask))


def signed_power(
    features: Float[Tensor, "*rows D"], power: float | Float[Tensor, ""]
) -> Float[Tensor, "*rows D"]:
    """Each row as `sign(x) |x|^power`, at length 1: with a power below 1 a few large values decide less."""
    return F.normalize(raised(features, power), dim=-1)


def centred(
    rows: Float[Tensor, "T S D"], members: Float[Tensor, "T S N"]
) -> tuple[Float[Tensor, "T S D"], Float[Tensor, "T D"]]:
    """The rows less their mean, at length 1, and that mean.

    Rows that do not count are 0. The mean is that of the class means, so that a class with many shots is not
    the origin.
    """
    shift = class_means(rows, members).mean(dim=1)
    counts = members.sum(dim=-1, keepdim=True)
    return F.normalize(rows - shift.unsqueeze(1), dim=-1) * counts, shift


def prepared(features: Float[np.ndarray, "m D"], power: float) -> Float[np.ndarray, "m D"]:
    """As `signed_power`, `sign(x) |x|^power` at length 1, in double precision."""
    exact = features.astype(np.float64)
    return unit_rows(np.sign(exact) * np.abs(exact) ** power)


def unit_rows(rows: Float[np.ndarray, "m D"]) -> Float[np.ndarray, "m D"]:
    """The rows at length 1; rows of zeros stay what they are."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))
