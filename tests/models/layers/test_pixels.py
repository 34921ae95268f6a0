"""The first block in parts against the same block in one piece, in double precision."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fewset.models.backbones.conv4 import Conv4
from fewset.models.layers import pixels
from fewset.models.layers.pixels import PixelBlock, patch_moments


def pictures(batch: int = 5, channels: int = 3, height: int = 11, width: int = 7, seed: int = 0) -> Tensor:
    images = torch.randn(batch, channels, height, width, generator=torch.Generator().manual_seed(seed))
    return images.double().to(memory_format=torch.channels_last)


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pictures at a time, and always."""
    monkeypatch.setattr(pixels, "_POSITIONS", 2 * 11 * 7)
    monkeypatch.setattr(pixels, "_WORTHWHILE", 1)


def block(seed: int = 0) -> PixelBlock:
    torch.manual_seed(seed)
    made = Conv4(dim=13).blocks[0].double()
    with torch.no_grad():
        made[1].weight.uniform_(-1, 1)  # negative ones, too: they turn the maximum into a minimum
        made[1].bias.normal_()
    return made


@pytest.mark.parametrize(("height", "width"), [(11, 7), (8, 8), (2, 3)])
@pytest.mark.usefixtures("in_parts")
def test_patch_moments_are_those_of_the_patches(height: int, width: int) -> None:
    images = pictures(height=height, width=width)
    patches = F.unfold(images, 3, padding=1).transpose(1, 2).reshape(-1, 27)
    mean, covariance = patch_moments(images)
    torch.testing.assert_close(mean, patches.mean(0))
    torch.testing.assert_close(covariance, patches.T.cov(correction=0))


@pytest.mark.usefixtures("in_parts")
def test_output_statistics_and_gradients_are_those_of_the_plain_block() -> None:
    images, ours, plain = pictures(), block(), block()
    outputs = ours(images), torch.nn.Sequential(*plain)(images)
    assert "PooledConvolution" in outputs[0].grad_fn.name()
    torch.testing.assert_close(*outputs)
    weights = torch.randn_like(outputs[0])
    for output in outputs:
        (output * weights).sum().backward()
    for (name, mine), theirs in zip(ours.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(
            mine.grad, theirs.grad, atol=1e-12, rtol=1e-9, msg=lambda m, n=name: f"{n}: {m}"
        )
    for mine, theirs in zip(ours.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.usefixtures("in_parts")
def test_second_derivatives_are_those_of_the_plain_block() -> None:
    """Second-order meta-learning takes the gradient of a gradient."""
    images, found = pictures(), []
    for forward in (block(), torch.nn.Sequential(*block())):
        parameters = list(forward.parameters())
        loss = forward(images).square().sum()
        gradients = torch.autograd.grad(loss, parameters, create_graph=True)
        found.append(torch.autograd.grad(sum(g.square().sum() for g in gradients), parameters))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-8, rtol=1e-8)


def test_single_precision_is_as_good_as_that_of_batch_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    """On smooth images, where neighbours hardly differ and the covariance is close to singular."""
    monkeypatch.setattr(pixels, "_WORTHWHILE", 1)
    noise = torch.randn(40, 3, 12, 12, generator=torch.Generator().manual_seed(1))
    images = F.interpolate(noise, size=(84, 84), mode="bicubic").to(memory_format=torch.channels_last)
    ours, exact = block().float(), block()
    plain = copy.deepcopy(ours)
    expected = torch.nn.Sequential(*exact)(images.double())
    wrong, wrong_plain = ((f(images) - expected).abs().max() for f in (ours, torch.nn.Sequential(*plain)))
    assert wrong < 2e-4
    assert wrong < 5 * wrong_plain


@pytest.mark.parametrize(
    "change",
    [
        lambda net, images: (net, images[:1]),
        lambda net, images: (net, images.contiguous()),
        lambda net, images: (net, images.clone().requires_grad_()),
        lambda net, images: (net.eval(), images),
    ],
    ids=["few", "other layout", "gradient of the images", "evaluation"],
)
def test_otherwise_the_block_is_a_plain_one(change, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixels, "_WORTHWHILE", 2 * 11 * 7)
    net, images = change(block(), pictures())
    output = net(images)
    assert "PooledConvolution" not in output.grad_fn.name()
    torch.testing.assert_close(output, torch.nn.Sequential(*net)(images))
