"""A residual network for machines without a GPU: the paper's ResNet-12 with half its channels."""

from fewset.models.backbones import register_backbone
from fewset.models.backbones.resnet12 import ResNet12


@register_backbone("resnet12-half")
class ResNet12Half(ResNet12):
    """3,108,928 parameters, 320-d. It is not the paper's network; its figures are not the paper's."""

    widths = 32, 80, 160, 320
