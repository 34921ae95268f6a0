"""DropBlock: dropout of whole squares of a feature map (Ghiasi et al., NeurIPS 2018)."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn


def drop_block(
    features: Float[Tensor, "B C H W"], rate: float | Tensor, block_size: int
) -> Float[Tensor, "B C H W"]:
    """Zero about the fraction `rate` of the features, in full squares, and scale the rest up to make up.

    On a map smaller than the block, the block is the largest square that fits. Random numbers come from
    torch's own generator, like those of dropout.
    """
    batch, channels, height, width = features.shape
    block_size = min(block_size, height, width)
    corner_rows, corner_columns = height - block_size + 1, width - block_size + 1
    # A block drops block_size² features and starts at one of the corners: this many corners drop `rate`.
    corner_rate = rate * (height * width) / (block_size**2 * corner_rows * corner_columns)
    corners = torch.rand(batch, channels, corner_rows, corner_columns, device=features.device) < corner_rate
    kept = (~blocks_at(corners, block_size)).to(features.dtype)
    return features * kept * (kept.numel() / kept.sum().clamp(min=1))


def blocks_at(corners: Bool[Tensor, "B C h w"], block_size: int) -> Bool[Tensor, "B C H W"]:
    """The cells of all full blocks whose upper left corners are marked.

    A cell is in a block if one of the `block_size`² places above and left of it is marked.
    """
    margin = block_size - 1
    padded = F.pad(corners.float(), (margin, margin, margin, margin))
    return F.max_pool2d(padded, block_size, stride=1) > 0


class DropBlock(nn.Module):
    """`drop_block` while training; the features as they are in evaluation."""

    def __init__(self, block_size: int) -> None:
        super().__init__()
        self.block_size = block_size

    def forward(self, features: Float[Tensor, "B C H W"], rate: float | Tensor) -> Float[Tensor, "B C H W"]:
        return drop_block(features, rate, self.block_size) if self.training else features
