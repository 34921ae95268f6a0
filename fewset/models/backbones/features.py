"""Rows of a table of features in the place of images: they are embeddings already."""

from jaxtyping import Float
from torch import Tensor

from fewset.models.backbones import Backbone, Takes, register_backbone


@register_backbone("features")
class FeatureInput(Backbone):
    """Returns the rows of a table as they are; `model.feature_transform` may normalise them."""

    takes: Takes = "features"
    input_size = 0  # there are no images

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, rows: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        return rows
