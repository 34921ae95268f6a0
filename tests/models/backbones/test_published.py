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


@pytest.mark.parametrize(
    ("name", "expected"),
    [("conv4", 113_088), ("resnet12", 12_424_320), ("resnet18", 11_168_832), ("wrn28_10", 36_482_880)],
)
def test_parameters_are_those_of_the_paper(name: str, expected: int) -> None:
    assert sum(parameter.numel() for parameter in BACKBONES[name]().parameters()) == expected
