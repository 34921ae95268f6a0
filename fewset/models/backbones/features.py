"""Rows of a table of features in the place of images: nothing is embedded, a row may be normalised."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from fewset.models.backbones import register_backbone
from fewset.models.capabilities import Takes
from fewset.runtime.errors import UserError, unknown_name

TRANSFORMS = ("none", "l2n", "cl2n")


@register_backbone("features")
class FeatureInput(nn.Module):
    """Stands where the backbone stands in a model on images: what is done to a row of the table first.

    As in SimpleShot (Wang et al., 2019): nothing, length 1 ("l2n"), or less the mean of the seen classes'
    training rows and then length 1 ("cl2n", after `fit_centre`). ProtoNet on such rows is SimpleShot.
    """

    takes: Takes = "features"
    input_size = 0  # there are no images
    centre: Tensor

    def __init__(self, dim: int, transform: str = "none") -> None:
        super().__init__()
        if transform not in TRANSFORMS:
            raise unknown_name("transform", transform, TRANSFORMS)
        self.dim, self.transform = dim, transform
        # NaN until it is fitted, so that "not fitted" survives saving and loading.
        if transform == "cl2n":
            self.register_buffer("centre", torch.full((dim,), torch.nan))

    def forward(self, rows: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        if self.transform == "none":
            return rows
        if self.transform == "cl2n":
            if self.centre.isnan().any():
                raise UserError(
                    "transform 'cl2n' subtracts the mean of the training features, and it is not set; call "
                    "fit_centre(model, table) first, or use transform='l2n'"
                )
            rows = rows - self.centre
        return F.normalize(rows, dim=-1)
