"""Heads of the classifier: a few labelled rows of features in, a linear map out. One file each.

A head answers one task with any number of shots a class, and many such tasks at once. Its `power` says how
features are prepared, row by row (`prepared`); `solve` takes prepared rows (T, S, D) of `T` tasks and the
membership (T, S, N) of each row: 1 in the column of its class, and zeros throughout for a row that does not
count (shots that differ by task; the photo that is left out). Every class has at least one row that counts.

A head commutes with rotations of the prepared rows, and does not depend on their order: a contract test
holds every registered head to both. So a task of `S` rows can be solved in `S` dimensions. A head that is not
registered, but made for one encoder's features, says `rotation_equivariant = False`.

Unlike the heads of `fewset.models`, which are layers of a network, these learn from the support alone and
have no parameters of the embedding size. They compute with NumPy, so that a classifier needs no torch.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from fewset.core.registry import Registry

DEFAULT = "ridge"


class Solution(NamedTuple):
    """The classifiers of `T` tasks: rows are shifted, brought to length 1, and mapped to logits."""

    shift: Float[np.ndarray, "T D"]
    weight: Float[np.ndarray, "T D N"]
    bias: Float[np.ndarray, "T N"]

    def logits(self, rows: Float[np.ndarray, "T M D"]) -> Float[np.ndarray, "T M N"]:
        """Logits of prepared rows."""
        return np.asarray(unit_rows(rows - self.shift[:, None]) @ self.weight + self.bias[:, None])


@runtime_checkable
class ClassifierHead(Protocol):
    """What the classifier asks of a head."""

    @property
    def power(self) -> float: ...

    def solve(self, rows: Float[np.ndarray, "T S D"], membership: Float[np.ndarray, "T S N"]) -> Solution: ...


CLASSIFIER_HEADS: Registry[Callable[[], ClassifierHead]] = Registry("classifier head", __name__)
register_classifier_head = CLASSIFIER_HEADS.register


def find_classifier_head(name: str) -> ClassifierHead:
    """The head of that name; "auto" is the one that measured best."""
    return CLASSIFIER_HEADS[resolved_name(name)]()


def resolved_name(name: str) -> str:
    """The name of a head, with that of the default for "auto"."""
    return DEFAULT if name == "auto" else name


def prepared(features: Float[np.ndarray, "*rows D"], power: float) -> Float[np.ndarray, "*rows D"]:
    """Each row as `sign(x) |x|^power`, at length 1: with a power below 1 a few large values decide less.

    In double precision.
    """
    exact = features.astype(np.float64)
    return unit_rows(np.sign(exact) * np.abs(exact) ** power)


def unit_rows(rows: Float[np.ndarray, "*rows D"]) -> Float[np.ndarray, "*rows D"]:
    """The rows at length 1; rows of zeros stay what they are."""
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12))


def softmax(logits: Float[np.ndarray, "*rows N"]) -> Float[np.ndarray, "*rows N"]:
    """Logits as probabilities; SciPy's function takes a tenth of a second to import."""
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


def membership(labels: Int[np.ndarray, " S"], way: int) -> Float[np.ndarray, "S {way}"]:
    """1 in the column of each row's class."""
    return np.asarray(np.eye(way)[labels])


def class_means(
    rows: Float[np.ndarray, "T S D"], members: Float[np.ndarray, "T S N"]
) -> Float[np.ndarray, "T N D"]:
    """The mean of each class's rows."""
    return np.asarray((members / members.sum(axis=1, keepdims=True)).mT @ rows)
