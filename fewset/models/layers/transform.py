"""Steps that change each embedding by itself, before anything compares embeddings."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from fewset.core.errors import UserError, refuse_unknown

STEPS = ("power", "l2", "centre")
"""The signed square root; length 1; less the mean that the training features have at this step."""


def raised(features: Float[Tensor, "*rows D"], power: float | Float[Tensor, ""]) -> Float[Tensor, "*rows D"]:
    """`sign(x) |x|^power`: with a power below 1 a few large values decide less."""
    return features.abs().clamp_min(torch.finfo(features.dtype).tiny).pow(power) * features.sign()


class FeatureTransform(nn.Module):
    """Steps from `STEPS`, between the backbone and all that follows it (`model.feature_transform`).

    The length and the mean are those of SimpleShot (Wang et al., 2019): its "l2n" is ("l2",), its "cl2n" is
    ("centre", "l2"). The power is that of PT+MAP (Hu et al., 2021). A mean is subtracted at most once; `fit`
    takes it from the training features, before the training. Until then it is NaN, so that "not set" survives
    saving and loading.
    """

    mean: Tensor | None

    def __init__(self, dim: int, steps: Sequence[str] = ()) -> None:
        super().__init__()
        for step in steps:
            refuse_unknown("step of model.feature_transform", step, STEPS)
        if list(steps).count("centre") > 1:
            raise UserError("model.feature_transform has 'centre' more than once; there is one mean")
        self.steps = tuple(steps)
        self.register_buffer("mean", torch.full((dim,), torch.nan) if "centre" in steps else None)

    def fit(self, features: Float[Tensor, "items D"]) -> None:
        """Take the mean of the training features, as the backbone gives them, where a step subtracts it."""
        if self.mean is not None:
            self.mean.copy_(self.before_centre(features).mean(dim=0))

    def before_centre(self, features: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        """The features after the steps before "centre": those whose mean is subtracted."""
        return self._stepped(features, self.steps[: self.steps.index("centre")])

    def forward(self, features: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        # Not while it is traced, for export say: no branch may depend on values there.
        if self.mean is not None and not torch.compiler.is_compiling() and self.mean.isnan().any():
            raise UserError(
                "model.feature_transform subtracts the mean of the training features, which is not set; call "
                "model.feature_transform.fit(features of the training split), or leave out 'centre'"
            )
        return self._stepped(features, self.steps)

    def _stepped(self, features: Float[Tensor, "*rows D"], steps: Sequence[str]) -> Float[Tensor, "*rows D"]:
        for step in steps:
            if step == "power":
                features = raised(features, 0.5)
            elif step == "l2":
                features = F.normalize(features, dim=-1)
            elif self.mean is not None:
                features = features - self.mean
        return features
