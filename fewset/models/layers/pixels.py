"""The first block of a network in training, without its largest tensor.

For 128 images of 84 pixels the output of the first convolution is a quarter of a gigabyte. No cache holds it,
so each pass over it (normalisation, pooling, the way back) waits for memory. It need not exist: a convolution
is linear, so the mean and the variance of its outputs follow from the mean m and the covariance C of the
patches of the images that it sees, w·m and wᵀCw. With these, the normalisation becomes part of the weights,
and a few images at a time go through convolution and pooling, there and back. The gradients are exact, too:
the images do not depend on the weights, so m and C are constants.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.grad import conv2d_weight

_POSITIONS = 2**15  # at once: 64 channels of them fit a cache, and single precision suffices to add them up
_WORTHWHILE = 8 * _POSITIONS

# How often all rows, the first and the last count among those that the upper, middle and lower row of a
# kernel see: the middle sees all, the upper (the row above) not the last, the lower not the first.
_SEEN = ((1, 0, -1), (1, 0, 0), (1, -1, 0))


class PixelBlock(nn.Sequential):
    """Convolution (3 x 3, padded), BatchNorm, maximum of 2 x 2, ReLU, of images that need no gradient."""

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D h w"]:
        convolution: Any = self[0]
        normalisation: Any = self[1]
        output: Tensor
        if not (normalisation.training and _worthwhile(images)):
            output = super().forward(images)  # type: ignore[no-untyped-call]
            return output
        mean, covariance = patch_moments(images)
        weight = convolution.weight.flatten(1)
        center = weight @ mean + convolution.bias
        variance = ((weight @ covariance) * weight).sum(1).clamp_min(0)
        _track(normalisation, center, variance, images.numel() // images.shape[1])
        scale = normalisation.weight * (variance + normalisation.eps).rsqrt()
        folded = (scale[:, None] * weight).view_as(convolution.weight)
        shift = normalisation.bias + scale * (convolution.bias - center)
        output = _PooledConvolution.apply(images, folded, shift)  # type: ignore[no-untyped-call]
        return output


def _worthwhile(images: Tensor) -> bool:
    """Whether this is the faster way: for many pixels on a CPU, in the layout of its fast convolutions."""
    return (
        images.device.type == "cpu"
        and images.is_contiguous(memory_format=torch.channels_last)
        and images.numel() >= _WORTHWHILE * images.shape[1]
        and torch.is_grad_enabled()
        and not images.requires_grad
        and not torch.is_autocast_enabled("cpu")
    )


@torch.no_grad()
def _track(normalisation: Any, mean: Tensor, variance: Tensor, count: int) -> None:
    """What BatchNorm keeps of a batch for evaluation."""
    normalisation.running_mean.lerp_(mean, normalisation.momentum)
    normalisation.running_var.lerp_(variance * (count / (count - 1)), normalisation.momentum)
    normalisation.num_batches_tracked += 1


def patch_moments(images: Float[Tensor, "B C H W"]) -> tuple[Float[Tensor, " P"], Float[Tensor, "P P"]]:
    """Mean and covariance of the 3 x 3 patches around all pixels, with zeros beyond the border; P = 9 C.

    Two taps of a patch see the images shifted against each other by up to two pixels, so all products come
    from the correlation of the images with themselves, less what a tap does not see: the first or the last
    row, the first or the last column.
    """
    batch, channels, height, width = images.shape
    padded = F.pad(images, (2, 2, 2, 2))
    sums, products = [], []
    for top, bottom in ((0, height), (0, 1), (height - 1, height)):
        for left, right in ((0, width), (0, 1), (width - 1, width)):
            pixels = images[..., top:bottom, left:right]
            around = padded[..., top : bottom + 4, left : right + 4]
            product = images.new_zeros(channels, channels, 5, 5, dtype=torch.float64)
            for some, those in _parts(pixels, around):
                product += _gradient_of_weight(those, product.shape, some)
            products.append(product)
            sums.append(pixels.sum((0, 2, 3), dtype=torch.float64))
    seen = torch.tensor(_SEEN, dtype=torch.float64)
    total = torch.einsum("yi,xj,ijc->cyx", seen, seen, torch.stack(sums).view(3, 3, channels))
    correlation = torch.stack(products).view(3, 3, channels, channels, 5, 5)
    correlation = torch.einsum("yi,xj,ijcdvu->yxcdvu", seen, seen, correlation)
    tap = torch.arange(3)
    y, x, v, u = torch.meshgrid(tap, tap, tap, tap, indexing="ij")  # two taps: (y, x) and (v, u)
    second = correlation[y, x, :, :, v - y + 2, u - x + 2].permute(4, 0, 1, 5, 2, 3)
    count = batch * height * width
    mean = total.flatten() / count
    covariance = second.reshape(len(mean), len(mean)) / count - mean.outer(mean)
    return mean.to(images.dtype), covariance.to(images.dtype)


class _PooledConvolution(torch.autograd.Function):
    """max(0, maximum of 2 x 2 of the convolution), a few images at a time."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        batch, _, height, width = images.shape
        shape = (batch, len(weight), height // 2, width // 2)
        output = _empty(shape, images.dtype)
        indices = _empty(shape, torch.int64)
        for some, out, index in _parts(images, output, indices):
            convolved = F.conv2d(some, weight, bias, padding=1)
            torch.ops.aten.max_pool2d_with_indices.out(convolved, [2, 2], out=out, indices=index)
            out.relu_()
        ctx.save_for_backward(images, weight, output, indices)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, Tensor]:
        images, weight, output, indices = ctx.saved_tensors
        of_weight, of_bias = torch.zeros_like(weight), weight.new_zeros(len(weight))
        for some, out, index, arriving in _parts(images, output, indices, gradient):
            passed = torch.ops.aten.threshold_backward(arriving, out, 0)
            like = _empty((len(some), len(weight), *some.shape[2:]), passed.dtype)
            spread = torch.ops.aten.max_pool2d_with_indices_backward(
                passed, like, [2, 2], [2, 2], [0, 0], [1, 1], False, index
            )
            of_weight = of_weight + _gradient_of_weight(some, weight.shape, spread, padding=1)
            of_bias = of_bias + passed.sum((0, 2, 3))
        return None, of_weight, of_bias


def _parts(images: Tensor, *others: Tensor) -> list[tuple[Tensor, ...]]:
    """A few images at a time, and what belongs to them."""
    at_once = max(1, _POSITIONS // (images.shape[2] * images.shape[3]))
    split: Any = torch.split
    return list(zip(*(split(tensor, at_once) for tensor in (images, *others)), strict=True))


def _gradient_of_weight(images: Tensor, shape: Sequence[int], outputs: Tensor, padding: int = 0) -> Tensor:
    """The correlation of outputs with images, which is the gradient of a convolution's weights."""
    gradient: Tensor = conv2d_weight(images, shape, outputs, padding=padding)  # type: ignore[no-untyped-call]
    return gradient


def _empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    return torch.empty(*shape, dtype=dtype, memory_format=torch.channels_last)
