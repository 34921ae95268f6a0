"""Sides of `fewset bench classify`: every engine computes the same function."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from fewset.bench.parts import _row_difference
from fewset.bench.photo_sides import ENGINES, Fit, Rows, plain_encoder
from fewset.encoders.efficientnet_lite import load_efficientnet_lite
from fewset.encoders.torch_networks.efficientnet_lite import EfficientNetLite
from tests.helpers.encoders import photograph

CPU = "cpu"


@pytest.mark.parametrize("folded", [False, True])
def test_the_plain_default_is_the_same_function(folded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[EfficientNetLite] = []
    forward = EfficientNetLite.forward

    def watched(network: EfficientNetLite, images: torch.Tensor) -> torch.Tensor:
        seen.append(network)
        assert images.is_contiguous()
        return forward(network, images)

    photographs = [photograph(seed) for seed in range(2)]
    expected = load_efficientnet_lite("efficientnet-lite0", CPU, "torch")(photographs)
    encoder = plain_encoder("efficientnet-lite0", CPU, folded)
    monkeypatch.setattr(EfficientNetLite, "forward", watched)
    np.testing.assert_allclose(encoder(photographs), expected, rtol=1e-5, atol=2e-5)
    (network,) = seen
    norms = [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)]
    convolutions = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    assert len(norms) == (0 if folded else len(convolutions))
    assert all(layer.weight.is_contiguous() for layer in convolutions)
    assert not network.training


@pytest.mark.slow
def test_every_engine_gives_the_row_of_the_same_image() -> None:
    rows = {engine: [Rows(engine, "cpu", images=2)()] for engine in ENGINES}
    assert {side[0]["images"] for side in rows.values()} == {2}
    assert _row_difference(rows) < 2e-5
    rows["torch"][0]["row"][7] += 0.01
    with pytest.raises(RuntimeError, match=r"disagree .* by 0\.0"):
        _row_difference(rows)


def test_a_classifier_is_fitted_and_saved_within_the_time() -> None:
    fit = Fit("cpu", photos=10, width=67, height=53)
    repetition = fit()
    assert 0 < repetition["network_seconds"] < repetition["embedded_seconds"] < repetition["seconds"]
    assert repetition["images"] == 10
    assert (Path(fit.scratch.name) / "my.fewset").stat().st_size > 10 * 1280 * 4
