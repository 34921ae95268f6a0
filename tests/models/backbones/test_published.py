"""The networks of the paper: numbers of parameters, and the published forward pass by the published names."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fewset.models.backbones import BACKBONES
from tests.helpers.published import State, conv4, resnet12, resnet18, wrn28_10

# The network, an input size that leaves the published pooling one cell, and where the state dict has names
# that the published one has not.
PUBLISHED: dict[str, tuple[Callable[[State, Tensor], Tensor], int, set[str]]] = {
    "conv4": (conv4, 84, set()),
    "resnet12": (resnet12, 84, {"training_steps"}),
    "resnet18": (resnet18, 19, set()),
    "wrn28_10": (wrn28_10, 12, set()),
}


class Reads(dict[str, Tensor]):
    """A state dict that knows which of its values were used."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Tensor:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Tensor | None = None) -> Tensor | None:  # type: ignore[override]
        self.read.add(key)
        return super().get(key, default)


@pytest.mark.parametrize("name", PUBLISHED)
@torch.no_grad()
def test_forward_is_the_published_one(name: str) -> None:
    oracle, size, extra = PUBLISHED[name]
    generator = torch.Generator().manual_seed(0)
    model = BACKBONES[name]().eval()
    for value in model.state_dict().values():
        if value.is_floating_point() and value.ndim == 1:  # normalisations and biases that do something
            value.copy_(torch.rand(value.shape, generator=generator) + 0.5)
    images = torch.randn(2, 3, size, size, generator=generator)
    state = Reads(model.state_dict())
    expected = oracle(state, images)
    torch.testing.assert_close(model(images), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))
    unread = {key for key in state if not key.endswith("num_batches_tracked")} - state.read
    assert unread == extra


def convolution(channels_in: int, channels: int, kernel: int, bias: bool = False) -> int:
    return channels_in * channels * kernel**2 + bias * channels


def normalisation(channels: int) -> int:
    return 2 * channels


def count(name: str) -> int:
    return sum(parameter.numel() for parameter in BACKBONES[name]().parameters())


def test_parameters_of_the_convnet_and_of_resnet12_are_the_papers() -> None:
    assert count("conv4") == 113_088
    assert count("resnet12") == 12_424_320


def test_parameters_of_resnet18() -> None:
    total = convolution(3, 64, 3) + normalisation(64)
    for channels_in, channels in ((64, 64), (64, 128), (128, 256), (256, 512)):
        total += convolution(channels_in, channels, 3) + 3 * convolution(channels, channels, 3)
        total += 4 * normalisation(channels)
        if channels != channels_in:
            total += convolution(channels_in, channels, 1) + normalisation(channels)
    assert count("resnet18") == total == 11_168_832


def test_parameters_of_wrn28_10() -> None:
    """28 = 6 x 4 + 4: three groups of four blocks of two convolutions, the stem, and three shortcuts."""
    total = convolution(3, 16, 3, bias=True) + normalisation(640)
    for channels_in, channels in ((16, 160), (160, 320), (320, 640)):
        total += convolution(channels_in, channels, 3, bias=True) + 7 * convolution(
            channels, channels, 3, bias=True
        )
        total += convolution(channels_in, channels, 1, bias=True)
        total += normalisation(channels_in) + 7 * normalisation(channels)
    assert count("wrn28_10") == total == 36_482_880
