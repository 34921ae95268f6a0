"""ResNet-18 for small images: a 3x3 stem without pooling; 11,168,832 parameters, 512-d."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from fewset.models.backbones import IMAGENET_MEAN, IMAGENET_STD, Channels, MapBackbone, register_backbone
from fewset.models.layers.pooling import GlobalAverage


class _Block(nn.Module):
    """Two 3x3 convolutions and a shortcut, which is a 1x1 convolution where the shape changes."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.downsample.append(nn.Conv2d(channels_in, channels, 1, stride=stride, bias=False))
            self.downsample.append(nn.BatchNorm2d(channels))

    def forward(self, features: Float[Tensor, "B C H W"]) -> Float[Tensor, "B E h w"]:
        residual = F.relu(self.bn1(self.conv1(features)))
        residual = self.bn2(self.conv2(residual))
        return F.relu(residual + self.downsample(features))


@register_backbone("resnet18")
class ResNet18(MapBackbone):
    """Inputs of any size; the authors' are 84. Modules are named as in the published checkpoints."""

    def __init__(
        self, input_size: int = 84, mean: Channels = IMAGENET_MEAN, std: Channels = IMAGENET_STD
    ) -> None:
        super().__init__()
        self.dim, self.input_size, self.mean, self.std = 512, input_size, mean, std
        self.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = nn.Sequential(_Block(64, 64, stride=1), _Block(64, 64, stride=1))
        self.layer2 = nn.Sequential(_Block(64, 128, stride=2), _Block(128, 128, stride=1))
        self.layer3 = nn.Sequential(_Block(128, 256, stride=2), _Block(256, 256, stride=1))
        self.layer4 = nn.Sequential(_Block(256, 512, stride=2), _Block(512, 512, stride=1))
        self.pool = GlobalAverage()
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def maps(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B D h w"]:
        features = F.relu(self.bn1(self.conv1(images)))
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            features = layer(features)
        return features
