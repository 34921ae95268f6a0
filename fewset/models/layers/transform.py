"""What SimpleShot does to features before it compares them: nothing, length 1, or centred and length 1."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from fewset.runtime.errors import UserError, refuse_unknown

TRANSFORMS = ("none", "l2n", "cl2n")
"""Wang et al., 2019: "l2n" is length 1, "cl2n" is less the mean of the training features, then length 1."""


def unset_mean(transform: str, dim: int) -> Float[Tensor, "D"] | None:
    """The buffer for the mean that a transform subtracts, or None for one that subtracts none.

    It is NaN until it is set, so that "not set" survives saving and loading.
    """
    refuse_unknown("transform", transform, TRANSFORMS)
    return torch.full((dim,), torch.nan) if transform == "cl2n" else None


def transformed(
    features: Float[Tensor, "*rows D"], transform: str, mean: Float[Tensor, "D"] | None, remedy: str
) -> Float[Tensor, "*rows D"]:
    """The features as the transform makes them. `remedy` says how a mean is set that is not set yet."""
    if transform == "none":
        return features
    if mean is not None:
        if mean.isnan().any():
            raise UserError(
                f"transform {transform!r} subtracts the mean of the training features, and it is not set; "
                f"{remedy} first, or use transform='l2n'"
            )
        features = features - mean
    return F.normalize(features, dim=-1)
