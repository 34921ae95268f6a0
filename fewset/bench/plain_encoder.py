"""EfficientNet-Lite as published code has it: NCHW, a convolution and then its normalisation."""

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fewset.encoders.efficientnet_lite import (
    EPSILON,
    layer_state,
    load_efficientnet_lite,
    published_state,
)
from fewset.encoders.efficientnet_lite_network import SameConvolution
from fewset.encoders.network import NetworkEncoder


def plain_encoder(name: str, device: torch.device, folded: bool = False) -> NetworkEncoder:
    """The encoder of that name by torch, in the layout that it starts with.

    The normalisation stays `folded` into the convolutions where that is asked for.
    """
    encoder = load_efficientnet_lite(name, device, "torch")
    network: Any = encoder.network
    if not folded:
        for place, layer in list(network.named_modules()):
            if isinstance(layer, SameConvolution):
                network.set_submodule(place, _Normalised(layer))
        network.load_state_dict(layer_state(published_state(name)))
    network.eval().requires_grad_(False).to(device, memory_format=torch.contiguous_format)
    return replace(encoder, network=lambda images: network(images.contiguous()))


class _Normalised(nn.Module):
    """A convolution and the normalisation after it; the names are those of `layer_state`."""

    def __init__(self, conv: SameConvolution) -> None:
        super().__init__()
        conv.bias = None
        self.conv, self.norm = conv, nn.BatchNorm2d(conv.out_channels, eps=EPSILON)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D h w"]:
        normalised: Tensor = self.norm(self.conv(images))
        return normalised
