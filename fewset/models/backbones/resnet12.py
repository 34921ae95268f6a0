"""The ResNet-12 of the paper: 12,424,320 parameters, 640-d, with DropBlock in the last two blocks."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from fewset.core.errors import UserError
from fewset.models.backbones import Channels, MapBackbone, register_backbone
from fewset.models.layers.dropblock import DropBlock
from fewset.models.layers.pooling import GlobalAverage

MEAN: Channels = (120.39586422 / 255, 115.59361427 / 255, 104.54012653 / 255)
STD: Channels = (70.68188272 / 255, 68.27635443 / 255, 72.54505529 / 255)
DROP_BLOCK_SIZE = 5
DROP_BLOCK_STEPS = 40_000


class _Block(nn.Module):
    """Three 3x3 convolutions beside a 1x1 one, then a maximum over 2x2; half the size comes out."""

    def __init__(self, channels_in: int, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels)
        self.downsample = nn.Sequential(
            nn.Conv2d(channels_in, channels, 1, bias=False), nn.BatchNorm2d(channels)
        )

    def forward(self, features: Float[Tensor, "B C H W"]) -> Float[Tensor, "B E h w"]:
        residual = F.leaky_relu(self.bn1(self.conv1(features)), 0.1)
        residual = F.leaky_relu(self.bn2(self.conv2(residual)), 0.1)
        residual = self.bn3(self.conv3(residual))
        # Maximum and activation commute; pooling first leaves a quarter of the values to the activation.
        return F.leaky_relu(F.max_pool2d(residual + self.downsample(features), 2), 0.1)


@register_backbone("resnet12")
class ResNet12(MapBackbone):
    """Inputs of 16 pixels a side or more; the paper's are 84.

    While training, dropout at `drop_rate` follows blocks 1 and 2, DropBlock follows blocks 3 and 4; its
    rate grows in proportion to the training steps up to `drop_rate` at step 40,000, as in the authors'
    runs. Deviations from their code: full blocks are dropped, and the count of steps (`training_steps`)
    leaves out evaluation and is part of the weights. Modules are named as in the published checkpoints.
    """

    widths = 64, 160, 320, 640
    least_size = 16
    training_steps: Tensor

    def __init__(
        self, input_size: int = 84, mean: Channels = MEAN, std: Channels = STD, drop_rate: float = 0.1
    ) -> None:
        super().__init__()
        first, second, third, last = self.widths
        self.dim, self.input_size, self.mean, self.std = last, input_size, mean, std
        self.layer1 = nn.Sequential(_Block(3, first))
        self.layer2 = nn.Sequential(_Block(first, second))
        self.layer3 = nn.Sequential(_Block(second, third))
        self.layer4 = nn.Sequential(_Block(third, last))
        self.dropout = nn.Dropout(drop_rate)
        self.drop_block = DropBlock(DROP_BLOCK_SIZE)
        self.pool = GlobalAverage()
        self.register_buffer("training_steps", torch.tensor(0))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="leaky_relu")

    def maps(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B D h w"]:
        if self.training:
            self.training_steps += 1
        block_rate = self.dropout.p * (self.training_steps / DROP_BLOCK_STEPS).clamp(max=1)
        features = self.dropout(self.layer1(images))
        features = self.dropout(self.layer2(features))
        features = self.drop_block(self.layer3(features), block_rate)
        left: Tensor = self.drop_block(self.layer4(features), block_rate)
        return left

    def cut(self, blocks: int) -> tuple[nn.Module, nn.Module]:
        """The first blocks, and the others, which make the maps of their output; both without dropout."""
        layers = nn.Sequential(self.layer1, self.layer2, self.layer3, self.layer4)
        if not 0 < blocks < len(layers):
            raise UserError(f"got {blocks} blocks, expected 1 to {len(layers) - 1}")
        return layers[:blocks], layers[blocks:]
