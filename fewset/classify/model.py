"""What fitting results in: labelled photos, a linear map, and how far to trust it."""

import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.special import softmax

from fewset.classify.background.head import Background
from fewset.classify.heads import Solution, find_classifier_head, prepared, resolved_name, unit_rows
from fewset.classify.labels import check_class_names
from fewset.classify.photos.support import Support
from fewset.classify.trust import Trust, examine
from fewset.classify.trust.rejection import Closeness, closeness, threshold
from fewset.core.errors import UserError
from fewset.encoders import Encoder
from fewset.models.regression import membership

STEPS = 5
TEMPERATURE = 1 / 15
ADVISED_BELOW = 5
"""Shots a class. With so many and more it measured as no gain, or a loss."""


@dataclass(frozen=True, eq=False)
class LinearClassifier:
    """Rows of features to logits. Every head ends as one of these; they are what is saved and exported."""

    power: float
    shift: Float[np.ndarray, " D"]
    weight: Float[np.ndarray, "D N"]
    bias: Float[np.ndarray, " N"]
    temperature: float

    def logits(self, features: Float[np.ndarray, "m D"]) -> Float[np.ndarray, "m N"]:
        centred = unit_rows(prepared(features, self.power) - self.shift)
        return np.asarray((centred @ self.weight + self.bias) / self.temperature)

    def probabilities(self, features: Float[np.ndarray, "m D"]) -> Float[np.ndarray, "m N"]:
        return np.asarray(softmax(self.logits(features), axis=1))


def linear_classifier(solution: Solution, power: float, temperature: float) -> LinearClassifier:
    """The classifier of the first (and only) task of a solution."""
    shift, weight, bias = (np.ascontiguousarray(part[0].double().cpu().numpy()) for part in solution)
    return LinearClassifier(power, shift, weight, bias, temperature)


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
        """The labelled photos, ready to compare others with."""
        return closeness(self.support.features, self.support.labels)

    def none_of_these(self, features: Float[np.ndarray, "m D"], share: float) -> Bool[np.ndarray, " m"]:
        """Whether each row is further from the labelled ones than all but a share of these are."""
        return np.asarray(self.closeness.largest(features) < self.threshold(share))

    def threshold(self, share: float) -> float:
        """The cosine below which a photo is none of these."""
        return threshold(self.trust.closeness, share)

    def probabilities(
        self, features: Float[np.ndarray, "m D"], together: bool = False
    ) -> Float[np.ndarray, "m N"]:
        """Of each row for each class; `together`, the rows help to classify each other."""
        if together:
            rows, support = (prepared(part, self.linear.power) for part in (features, self.support.features))
            found = probabilities_together(rows, support, self.support.labels)
        else:
            found = self.linear.probabilities(features)
        if not np.isfinite(found).all():
            raise UserError("the classifier is damaged: its probabilities are no numbers; fit it anew")
        return found

    def check_encoder(self, encoder: Encoder) -> None:
        """Refuse an encoder that did not make the rows that this was fitted on."""
        if self.encoder is None:
            raise UserError(
                "this classifier was fitted on rows of features and cannot read photos; give it rows of "
                "features, or fit it on photos"
            )
        if encoder.digest != self.encoder.digest:
            raise UserError(
                f"the classifier was made with the encoder {self.encoder.id} ({self.encoder.digest[:12]}), "
                f"but {encoder.id} here is another ({encoder.digest[:12]}); take that one, or fit anew"
            )
        dim = self.support.features.shape[1]
        if encoder.dim != dim:
            raise UserError(
                f"the classifier is damaged: its rows have {dim} numbers, those of its encoder {encoder.id} "
                f"{encoder.dim}; fit it anew"
            )


def learn(
    head_name: str, support: Support, encoder: EncoderStamp | None, background: Background | None = None
) -> Learned:
    """Fit a head to labelled rows (with FEAT, where the background gave it); examine how far to trust it."""
    if len(support.classes) < 2:
        raise UserError(
            f"got photos of 1 class ({support.classes[0]}), expected 2 or more; with one class there is "
            "nothing to tell apart"
        )
    check_class_names(support.classes)
    adapted = background.head if background is not None else None
    head = find_classifier_head(head_name) if adapted is None else adapted
    trust = examine(head, support)
    rows = torch.from_numpy(prepared(support.features, head.power)).unsqueeze(0)
    members = membership(torch.from_numpy(support.labels), len(support.classes), rows.dtype).unsqueeze(0)
    linear = linear_classifier(head.solve(rows, members), head.power, trust.temperature)
    return Learned(support, resolved_name(head_name), linear, trust, encoder, background)


def warn_if_not_advised(shots: Int[np.ndarray, " N"]) -> None:
    """Warn where the classes have so many labelled photos that the others do not help."""
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
    """Probabilities of unlabelled rows, all of them taken into account; both kinds of rows are prepared.

    Each step gives every unlabelled row to the classes by softmax(cosine / temperature), and makes the
    prototype of a class anew of its shots, which count 1 each, and of the shares that it was given. The
    cosines are around the mean of the class means.
    """
    members = np.eye(labels.max() + 1)[labels]
    means = (members / members.sum(axis=0)).T @ support
    rows, support = unit_rows(rows - means.mean(axis=0)), unit_rows(support - means.mean(axis=0))
    labelled = members.T @ support
    prototypes = unit_rows(labelled)
    for _ in range(steps):
        share = softmax(rows @ prototypes.T / temperature, axis=1)
        prototypes = unit_rows(labelled + share.T @ rows)
    return np.asarray(softmax(rows @ prototypes.T / temperature, axis=1))
