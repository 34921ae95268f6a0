"""Rows of a table of features in the place of images: nothing is embedded, a row may be normalised."""

from jaxtyping import Float
from torch import Tensor, nn

from fewset.models.backbones import register_backbone
from fewset.models.layers.transform import transformed, unset_mean
from fewset.models.task_model import Takes


@register_backbone("features")
class FeatureInput(nn.Module):
    """Stands where the backbone stands in a model on images: what is done to a row of the table first.

    As in SimpleShot (Wang et al., 2019): nothing, length 1 ("l2n"), or less the mean of the seen classes'
    training rows and then length 1 ("cl2n", after `fit_centre`). ProtoNet on such rows is SimpleShot.
    """

    takes: Takes = "features"
    input_size = 0  # there are no images
    centre: Tensor | None

    def __init__(self, dim: int, transform: str = "none") -> None:
        super().__init__()
        self.dim, self.transform = dim, transform
        self.register_buffer("centre", unset_mean(transform, dim))

    def forward(self, rows: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        return transformed(rows, self.transform, self.centre, "call fit_centre(model, table)")
