"""Everything that fitting results in: what is asked for answers, saved, and described."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float

from fewset.classify.background import Background
from fewset.classify.class_names import check_class_names
from fewset.classify.heads import find_classifier_head, resolved_name
from fewset.classify.linear import LinearClassifier, linear_classifier, prepared
from fewset.classify.rejection import Closeness, closeness, threshold
from fewset.classify.support import Support
from fewset.classify.together import probabilities_together
from fewset.classify.trust import Trust, examine
from fewset.compute.machine import prepare_for_fork
from fewset.core.errors import UserError
from fewset.encoders import Encoder
from fewset.models.regression import membership


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
    prepare_for_fork()
    adapted = background.head if background is not None else None
    head = find_classifier_head(head_name) if adapted is None else adapted
    trust = examine(head, support)
    rows = torch.from_numpy(prepared(support.features, head.power)).unsqueeze(0)
    members = membership(torch.from_numpy(support.labels), len(support.classes), rows.dtype).unsqueeze(0)
    linear = linear_classifier(head.solve(rows, members), head.power, trust.temperature)
    return Learned(support, resolved_name(head_name), linear, trust, encoder, background)
