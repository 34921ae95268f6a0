"""The schedule of DropBlock: training steps only, and part of the weights."""

import pytest
import torch
from torch import Tensor

from fewset.models.backbones.resnet12 import ResNet12
from fewset.models.layers.dropblock import DropBlock

IMAGES = torch.randn(2, 3, 17, 19, generator=torch.Generator().manual_seed(0))


@torch.no_grad()
def test_only_training_steps_are_counted() -> None:
    model = ResNet12()
    for mode, count in ((True, 1), (False, 1), (True, 2), (False, 2), (False, 2), (True, 3)):
        model.train(mode)(IMAGES)
        assert model.training_steps == count


@pytest.mark.parametrize("drop_rate", [0.1, 0.3])
@pytest.mark.parametrize("step", [1, 20_000, 40_000, 90_000])
@torch.no_grad()
def test_the_rate_follows_the_authors_schedule(
    step: int, drop_rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[Tensor] = []

    def record(_module: DropBlock, features: Tensor, rate: Tensor) -> Tensor:
        rates.append(rate)
        return features

    monkeypatch.setattr(DropBlock, "forward", record)
    model = ResNet12(drop_rate=drop_rate)
    model.training_steps.fill_(step - 1)
    model(IMAGES)
    keep = max(1 - drop_rate / (20 * 2000) * step, 1 - drop_rate)
    assert [float(rate) for rate in rates] == pytest.approx([1 - keep] * 2, abs=1e-6)
