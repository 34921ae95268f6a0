"""A residual network for machines without a GPU: the paper's ResNet-12 with half its channels in every block."""

from fewset.models.backbones import register_backbone
from fewset.models.backbones.resnet12 import ResNet12


@register_backbone("resnet12-half")
class ResNet12Half(ResNet12):
    """3,108,928 parameters, 320-d. It is not the ResNet-12 of the paper, whose results it does not reproduce."""

    widths = 32, 80, 160, 320
