"""What is done to features, row by row, before anything compares them: power, length 1, less a mean.

SimpleShot's three transforms are made of the same steps.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from fewset.core.errors import UserError, refuse_unknown

STEPS = ("power", "l2", "centre")
"""The signed square root; length 1; less the mean that the training features have at this step."""

TRANSFORMS: dict[str, tuple[str, ...]] = {"none": (), "l2n": ("l2",), "cl2n": ("centre", "l2")}
"""Wang et al., 2019: "l2n" is length 1, "cl2n" is less the mean of the training features, then length 1."""


def raised(features: Float[Tensor, "*rows D"], power: float | Float[Tensor, ""]) -> Float[Tensor, "*rows D"]:
    """`sign(x) |x|^power`: with a power below 1 a few large numbers decide less."""
    return features.abs().clamp_min(torch.finfo(features.dtype).tiny).pow(power) * features.sign()


def stepped(
    features: Float[Tensor, "*rows D"], steps: Sequence[str], mean: Float[Tensor, " D"] | None
) -> Float[Tensor, "*rows D"]:
    """The features after these steps, one after another."""
    for step in steps:
        if step == "power":
            features = raised(features, 0.5)
        elif step == "l2":
            features = F.normalize(features, dim=-1)
        elif mean is not None:
            features = features - mean
    return features


class FeatureTransform(nn.Module):
    """Steps from `STEPS`, between the backbone and all that follows it (`model.feature_transform`).

    The power and the length are those of SimpleShot (Wang et al., 2019) and of PT+MAP (Hu et al., 2021). A
    mean is subtracted at most once; it is taken from the training features by `fit`, before the training.
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
            before = self.steps[: self.steps.index("centre")]
            self.mean.copy_(stepped(features, before, None).mean(dim=0))

    def forward(self, features: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        _refuse_unset(
            self.mean,
            "model.feature_transform",
            "call model.feature_transform.fit(features of the training split), or leave out 'centre'",
        )
        return stepped(features, self.steps, self.mean)


def unset_mean(transform: str, dim: int) -> Float[Tensor, " D"] | None:
    """The buffer for the mean that a transform subtracts, or None for one that subtracts none.

    It is NaN until it is set, so that "not set" survives saving and loading.
    """
    refuse_unknown("transform", transform, TRANSFORMS)
    return torch.full((dim,), torch.nan) if "centre" in TRANSFORMS[transform] else None


def transformed(
    features: Float[Tensor, "*rows D"], transform: str, mean: Float[Tensor, " D"] | None, remedy: str
) -> Float[Tensor, "*rows D"]:
    """The features as the transform makes them. `remedy` says how a mean is set that is not set yet."""
    _refuse_unset(mean, f"transform {transform!r}", f"{remedy} first, or use transform='l2n'")
    return stepped(features, TRANSFORMS[transform], mean)


def _refuse_unset(mean: Float[Tensor, " D"] | None, what: str, remedy: str) -> None:
    """An error where a mean is still to be set; not in export, where nothing may hang on numbers."""
    if mean is not None and not torch.compiler.is_exporting() and mean.isnan().any():
        raise UserError(f"{what} subtracts the mean of the training features, and it is not set; {remedy}")
