"""A fitted classifier: labelled photos, a linear map, and how far to trust it."""

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from fewset.classify.background.comparison import Background
from fewset.classify.heads import (
    find_classifier_head,
    membership,
    prepared,
    resolved_name,
    softmax,
    unit_rows,
)
from fewset.classify.labels import check_class_names
from fewset.classify.photos.support import Support
from fewset.classify.trust import Trust, examine
from fewset.classify.trust.rejection import Closeness, closeness, threshold
from fewset.core.errors import UserError
from fewset.encoders import Encoder

STEPS = 5
TEMPERATURE = 1 / 15
ADVISED_BELOW = 5
"""Shots a class; from here on it gained nothing, or lost, where it was measured."""


@dataclass(frozen=True, eq=False)
class LinearClassifier:
    """Rows of features to logits. Every head is fitted to one of these, which is saved and exported."""

    power: float
    shift: Float[np.ndarray, " D"]
    weight: Float[np.ndarray, "D N"]
    bias: Float[np.ndarray, " N"]
    temperature: float

    def logits(self, features: Float[np.ndarray, "m D"]) -> Float[np.ndarray, "m N"]:
        centred = unit_rows(prepared(features, self.power) - self.shift)
        return np.asarray((centred @ self.weight + self.bias) / self.temperature)

    def probabilities(self, features: Float[np.ndarray, "m D"]) -> Float[np.ndarray, "m N"]:
        return softmax(self.logits(features))


@dataclass(frozen=True)
class EncoderStamp:
    """Which encoder made the rows of features."""

    id: str
    digest: str


@dataclass(frozen=True, eq=False)
class Learned:
    """A fitted classifier. `encoder` is None where it was fitted on rows of features."""

    support: Support
    head: str
    linear: LinearClassifier
    trust: Trust
    encoder: EncoderStamp | None
    background: Background | None = None

    @cached_property
    def closeness(self) -> Closeness:
        """The labelled photos, ready to compare others with, in the order of their content."""
        ordered = self.support.take(self.support.order)
        return closeness(ordered.features, ordered.labels)

    def nearest(self, features: Float[np.ndarray, "m D"]) -> Int[np.ndarray, " m"]:
        """The index of the labelled photo that is nearest to each row."""
        return np.asarray(self.support.order[self.closeness.nearest(features)])

    def threshold(self, share: float) -> float:
        """The closeness below which a photo is none of these."""
        return threshold(self.trust.closeness, len(self.support.classes), share)

    def probabilities(
        self, features: Float[np.ndarray, "m D"], together: bool = False
    ) -> Float[np.ndarray, "m N"]:
        """The probability of each class for each row; `together`, the rows help to classify each other."""
        if together:
            rows, support = (prepared(part, self.linear.power) for part in (features, self.support.features))
            found = probabilities_together(rows, support, self.support.labels)
        else:
            found = self.linear.probabilities(features)
        if not np.isfinite(found).all():
            raise UserError("the classifier is damaged: its probabilities are not finite; fit it again")
        return found

    def check_encoder(self, encoder: Encoder) -> None:
        """Raise an error for an encoder that did not make the rows of the fit."""
        if self.encoder is None:
            raise UserError(
                "this classifier was fitted on rows of features and cannot read photos; give it rows of "
                "features, or fit it on photos"
            )
        if encoder.digest != self.encoder.digest:
            raise UserError(
                f"the classifier was made with the encoder {self.encoder.id} ({self.encoder.digest[:12]}), "
                f"but {encoder.id} here is another ({encoder.digest[:12]}); use that one, or fit again"
            )
        dim = self.support.features.shape[1]
        if encoder.dim != dim:
            raise UserError(
                f"the classifier is damaged: its rows have {dim} dimensions, its encoder {encoder.id} has "
                f"{encoder.dim}; fit it again"
            )


def learn(
    head_name: str, support: Support, encoder: EncoderStamp | None, background: Background | None = None
) -> Learned:
    """Fit a head (or FEAT from the background) to labelled rows, and examine how far to trust it."""
    if len(support.classes) < 2:
        raise UserError(
            f"got photos of 1 class ({support.classes[0]}), expected 2 or more; add another class"
        )
    check_class_names(support.classes)
    adapted = background.head if background is not None else None
    head = find_classifier_head(head_name) if adapted is None else adapted
    trust = examine(head, support)
    ordered = support.take(support.order)  # sums then have the same last digit for any order of the photos
    rows = prepared(ordered.features, head.power)
    solution = head.solve(rows[None], membership(ordered.labels, len(support.classes))[None])
    shift, weight, bias = (np.ascontiguousarray(part[0], dtype=np.float64) for part in solution)
    linear = LinearClassifier(head.power, shift, weight, bias, trust.temperature)
    return Learned(support, resolved_name(head_name), linear, trust, encoder, background)


def warn_if_not_advised(shots: Int[np.ndarray, " N"]) -> None:
    """Warn where the classes have so many labelled photos that the unlabelled ones do not help."""
    mean = shots.mean()
    if mean >= ADVISED_BELOW:
        warnings.warn(
            f"together is not advised with {mean:.3g} photos a class: from {ADVISED_BELOW} on it gains "
            "nothing, or loses",
            stacklevel=3,
        )


def probabilities_together(
    rows: Float[np.ndarray, "m D"],
    support: Float[np.ndarray, "n D"],
    labels: Int[np.ndarray, " n"],
    steps: int = STEPS,
    temperature: float = TEMPERATURE,
) -> Float[np.ndarray, "m N"]:
    """Transductive probabilities of unlabelled rows; both kinds of rows are prepared.

    Each step assigns every unlabelled row to the classes by softmax(cosine / temperature), and recomputes the
    prototype of a class from its shots, which count 1 each, and from its shares of the rows. The cosines are
    around the mean of the class means.
    """
    members = np.eye(labels.max() + 1)[labels]
    means = (members / members.sum(axis=0)).T @ support
    rows, support = unit_rows(rows - means.mean(axis=0)), unit_rows(support - means.mean(axis=0))
    labelled = members.T @ support
    prototypes = unit_rows(labelled)
    for _ in range(steps):
        share = softmax(rows @ prototypes.T / temperature)
        prototypes = unit_rows(labelled + share.T @ rows)
    return softmax(rows @ prototypes.T / temperature)
