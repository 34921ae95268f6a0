"""Folding changes no embedding, and nothing of the model that it is given."""

import pytest
import torch
from torch import Tensor, nn

from fewset.models.backbones import BACKBONES
from fewset.models.layers.folding import fold

NORMALISATIONS = {"conv4": 0, "resnet12": 0, "resnet18": 0, "wrn28_10": 13}  # left after folding


def used(backbone: nn.Module) -> nn.Module:
    """As after training: weights, statistics and scales of every size and sign."""
    generator = torch.Generator().manual_seed(1)
    for module in backbone.modules():
        if isinstance(module, nn.BatchNorm2d):
            for values, low, high in (
                (module.weight, -0.5, 1.5),
                (module.bias, -0.5, 0.5),
                (module.running_mean, -0.5, 0.5),
                (module.running_var, 0.3, 3.0),
            ):
                values.data.uniform_(low, high, generator=generator)
    return backbone


@pytest.mark.parametrize("name", NORMALISATIONS)
def test_the_embeddings_stay(name: str) -> None:
    torch.manual_seed(0)
    backbone = used(BACKBONES[name](input_size=17)).eval()
    before = {key: value.clone() for key, value in backbone.state_dict().items()}
    probe, images = torch.randn(2, 3, 17, 17), torch.randn(5, 3, 17, 17)
    folded = fold(backbone, probe)
    assert folded is not backbone
    left = sum(isinstance(module, nn.BatchNorm2d) for module in folded.modules())
    assert left == NORMALISATIONS[name]
    with torch.no_grad():
        expected, found = backbone(images), folded(images)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5 * float(expected.abs().max()))
    for key, value in backbone.state_dict().items():
        torch.testing.assert_close(value, before[key], rtol=0, atol=0)


class Forked(nn.Module):
    """The output of the convolution is used with and without the normalisation: it must not be folded."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.normalisation = nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5)

    def forward(self, images: Tensor) -> Tensor:
        features = self.convolution(images)
        total: Tensor = (self.normalisation(features) + features).mean((2, 3))
        return total


def test_what_cannot_be_folded_is_left() -> None:
    torch.manual_seed(0)
    forked = used(Forked()).eval()
    assert fold(forked, torch.randn(2, 3, 7, 7)) is forked
    plain = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten())
    assert fold(plain, torch.randn(2, 3, 7, 7)) is plain
