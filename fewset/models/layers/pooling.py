"""From maps, channels first, to the items of tasks: rows, or maps with the channels last."""

from jaxtyping import Float
from torch import Tensor, nn


class GlobalMaximum(nn.Module):
    def forward(self, maps: Float[Tensor, "B D H W"]) -> Float[Tensor, "B D"]:
        return maps.amax(dim=(2, 3))


class GlobalAverage(nn.Module):
    def forward(self, maps: Float[Tensor, "B D H W"]) -> Float[Tensor, "B D"]:
        return maps.mean(dim=(2, 3))


class ChannelsLast(nn.Module):
    """No pool: an embedding at every place of the map."""

    def forward(self, maps: Float[Tensor, "B D H W"]) -> Float[Tensor, "B H W D"]:
        return maps.permute(0, 2, 3, 1)


def channels_first(maps: Float[Tensor, "*batch H W D"]) -> Float[Tensor, "B D H W"]:
    """Maps of tasks as a batch for convolutions."""
    return maps.flatten(0, -4).permute(0, 3, 1, 2)


POOLS: dict[str, type[nn.Module]] = {"maximum": GlobalMaximum, "average": GlobalAverage}
