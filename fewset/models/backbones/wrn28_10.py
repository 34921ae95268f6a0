"""The wide residual network WRN-28-10: 28 layers, ten times the width; 640-d."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from fewset.models.backbones import IMAGENET_MEAN, IMAGENET_STD, Channels, MapBackbone, register_backbone
from fewset.models.layers.pooling import GlobalAverage


class _Block(nn.Module):
    """Two 3x3 convolutions, normalised and activated before each, with dropout between; and a shortcut."""

    def __init__(self, channels_in: int, channels: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(channels_in)
        self.conv1 = nn.Conv2d(channels_in, channels, 3, padding=1)
        self.dropout = nn.Dropout(dropout)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride=stride, padding=1)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.shortcut.append(nn.Conv2d(channels_in, channels, 1, stride=stride))

    def forward(self, features: Float[Tensor, "B C H W"]) -> Float[Tensor, "B E h w"]:
        residual = self.dropout(self.conv1(F.relu(self.bn1(features))))
        residual = self.conv2(F.relu(self.bn2(residual)))
        total: Tensor = residual + self.shortcut(features)
        return total


def _layer(channels_in: int, channels: int, stride: int, dropout: float) -> nn.Sequential:
    first = _Block(channels_in, channels, stride, dropout)
    return nn.Sequential(first, *(_Block(channels, channels, 1, dropout) for _ in range(3)))


@register_backbone("wrn28_10")
class WRN28x10(MapBackbone):
    """Inputs of any size; the paper's are 84. Modules are named as in the published checkpoints.

    As in the authors' code, convolutions have biases and start from PyTorch's default. Deviation: the last
    normalisation has PyTorch's default momentum of 0.1; the authors' 0.9 makes the running statistics those
    of little more than the last batch.
    """

    def __init__(
        self,
        input_size: int = 84,
        mean: Channels = IMAGENET_MEAN,
        std: Channels = IMAGENET_STD,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.dim, self.input_size, self.mean, self.std = 640, input_size, mean, std
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.layer1 = _layer(16, 160, 1, dropout)
        self.layer2 = _layer(160, 320, 2, dropout)
        self.layer3 = _layer(320, 640, 2, dropout)
        self.bn1 = nn.BatchNorm2d(640)
        self.pool = GlobalAverage()

    def maps(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B D h w"]:
        features = self.layer3(self.layer2(self.layer1(self.conv1(images))))
        return F.relu(self.bn1(features))
