"""Random changes of a whole batch of images at once, on the device where the images are.

All randomness is drawn on the CPU from one seed, so that it does not depend on the device; the functions
that change pixels are given what was drawn and are not random themselves.
"""

from collections.abc import Callable, Sequence
from math import log

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped, UInt8
from torch import Generator, Tensor

from fewset.core.errors import UserError, refuse_unknown

_AREA = (0.08, 1.0)  # the least and the largest share of an image's area that `resized_crop` takes


def augment(
    images: UInt8[Tensor, "B 3 H W"], steps: Sequence[str], size: int, seed: int
) -> Float[Tensor, "B 3 {size} {size}"]:
    """The images after the named steps, in their order, centre-cropped to `size` where a step has not yet.

    Values stay in 0 to 255; the result is in channels_last memory format.
    """
    for step in steps:
        refuse_unknown("augmentation step", step, STEPS)
    generator = Generator().manual_seed(seed)
    for step in steps:
        images = STEPS[step](images, size, generator)
    cropped = center_crop(images, size).contiguous(memory_format=torch.channels_last)
    return cropped.float().clamp_(0, 255)


def center_crop(images: Shaped[Tensor, "*B H W"], size: int) -> Shaped[Tensor, "*B {size} {size}"]:
    """The middle `size` x `size` pixels of each image, as a view."""
    height, width = images.shape[-2:]
    if min(height, width) < size:
        got = f"the images are {height} x {width} pixels"
        raise UserError(f"{got}, expected {size} or more; import the set again with --size {size}")
    top, left = round((height - size) / 2), round((width - size) / 2)
    return images[..., top : top + size, left : left + size]


def random_resized_crop(
    images: Shaped[Tensor, "B 3 H W"], size: int, generator: Generator
) -> Shaped[Tensor, "B 3 {size} {size}"]:
    """A part of each image (8 to 100 % of its area; aspect 3/4 to 4/3), resized to `size`.

    Of ten draws the first that fits into the image counts, as in torchvision. Should none fit, which takes
    images far from square, the first is cut to the image; torchvision takes a central crop.
    """
    batch, _, rows, columns = images.shape
    pixels = _uniform(*_AREA, (batch, 10), generator) * rows * columns
    aspect = _uniform(log(3 / 4), log(4 / 3), (batch, 10), generator).exp()
    height, width = (pixels / aspect).sqrt().round(), (pixels * aspect).sqrt().round()
    fits = (height >= 1) & (height <= rows) & (width >= 1) & (width <= columns)
    first = fits.int().argmax(dim=1, keepdim=True)
    height = height.gather(1, first)[:, 0].clamp(1, rows).long()
    width = width.gather(1, first)[:, 0].clamp(1, columns).long()
    top, left = _offset(rows - height, generator), _offset(columns - width, generator)
    return resized_crop(images, top, left, height, width, size)


def resized_crop(
    images: Shaped[Tensor, "B 3 H W"],
    top: Int[Tensor, " B"],
    left: Int[Tensor, " B"],
    height: Int[Tensor, " B"],
    width: Int[Tensor, " B"],
    size: int,
) -> Shaped[Tensor, "B 3 {size} {size}"]:
    """One box of each image, resized with Pillow's bilinear filter (which averages when it shrinks).

    One call for each image: measured four times faster on a CPU than batched products or `grid_sample`,
    since bytes in channels_last have a kernel of their own. That kernel rounds to whole bytes, as Pillow
    does; other devices have none and go through floating point.
    """
    if images.device.type != "cpu":
        images = images.float()
    boxes = torch.stack([top, left, height, width], dim=1).tolist()
    return torch.cat(
        [
            F.interpolate(
                images[i : i + 1, :, y : y + h, x : x + w], (size, size), mode="bilinear", antialias=True
            )
            for i, (y, x, h, w) in enumerate(boxes)
        ]
    )


def random_color_jitter(
    images: Shaped[Tensor, "B 3 H W"],
    _size: int,
    generator: Generator,
) -> Float[Tensor, "B 3 H W"]:
    """Brightness, contrast and saturation, each by a factor of 0.6 to 1.4 of its own for each image.

    Deviation from torchvision: the order of the three is random by batch, not by image.
    """
    # A copy, free to be changed in place; in planes, where greys are three times faster than interleaved.
    images = images.clone(memory_format=torch.contiguous_format).float()
    for change in torch.randperm(3, generator=generator).tolist():
        factor = _uniform(0.6, 1.4, (len(images), 1, 1, 1), generator).to(images.device)
        (adjust_brightness_, adjust_contrast_, adjust_saturation_)[change](images, factor)
    return images


def adjust_brightness_(
    images: Float[Tensor, "B 3 H W"], factor: Float[Tensor, "B 1 1 1"]
) -> Float[Tensor, "B 3 H W"]:
    """Away from black by the factor, in place."""
    return images.mul_(factor).clamp_(0, 255)


def adjust_contrast_(
    images: Float[Tensor, "B 3 H W"], factor: Float[Tensor, "B 1 1 1"]
) -> Float[Tensor, "B 3 H W"]:
    """Away from the image's mean grey by the factor, in place."""
    mean = _gray(images).mean(dim=(2, 3), keepdim=True)
    return images.mul_(factor).add_((1 - factor) * mean).clamp_(0, 255)


def adjust_saturation_(
    images: Float[Tensor, "B 3 H W"], factor: Float[Tensor, "B 1 1 1"]
) -> Float[Tensor, "B 3 H W"]:
    """Away from each pixel's grey by the factor, in place."""
    gray = _gray(images)
    return images.mul_(factor).add_((1 - factor) * gray).clamp_(0, 255)


def _gray(images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B 1 H W"]:
    gray = images[:, 0:1] * 0.299
    return gray.add_(images[:, 1:2], alpha=0.587).add_(images[:, 2:3], alpha=0.114)


def random_flip(
    images: Shaped[Tensor, "B 3 H W"],
    _size: int,
    generator: Generator,
) -> Shaped[Tensor, "B 3 H W"]:
    """Half of the images (by chance) flipped left to right."""
    return flip(images, draw_flips(len(images), generator))


def draw_flips(count: int, generator: Generator) -> Bool[Tensor, " {count}"]:
    """Whether each of `count` images is flipped."""
    return torch.rand(count, generator=generator) < 0.5


def flip(images: Shaped[Tensor, "B 3 H W"], chosen: Bool[Tensor, " B"]) -> Shaped[Tensor, "B 3 H W"]:
    """The chosen images flipped left to right, the others as they are."""
    return torch.where(chosen.to(images.device).view(-1, 1, 1, 1), images.flip(3), images)


def draw_rotations(count: int, share: float, generator: Generator) -> Int[Tensor, " {count}"]:
    """The quarter turns of each of `count` classes: 1 to 3 for about this share of them, or 0."""
    turns = torch.randint(1, 4, (count,), generator=generator)
    return turns * (torch.rand(count, generator=generator) < share)


def rotate(images: Shaped[Tensor, "B 3 S S"], turns: Int[Tensor, " B"]) -> Shaped[Tensor, "B 3 S S"]:
    """Each image turned to the left by its number of quarters."""
    turned = images.clone()
    for quarters in (1, 2, 3):
        chosen = turns == quarters
        turned[chosen] = images[chosen].rot90(quarters, (2, 3))
    return turned


def random_crop(
    images: Shaped[Tensor, "B 3 H W"], size: int, generator: Generator
) -> Shaped[Tensor, "B 3 {size} {size}"]:
    """A random window of each image."""
    rows, columns = images.shape[2:]
    if min(rows, columns) < size:
        return center_crop(images, size)  # raises
    slack = torch.tensor([rows - size, columns - size]).repeat(len(images), 1)
    top, left = _offset(slack, generator).unbind(dim=1)
    windows = images.unfold(2, size, 1).unfold(3, size, 1)
    return windows[torch.arange(len(images)), :, top, left]


def random_pad_crop(
    images: Shaped[Tensor, "B 3 H W"], size: int, generator: Generator
) -> Shaped[Tensor, "B 3 {size} {size}"]:
    """A window of each image after black margins of 8 pixels (at 84; in proportion at other sizes)."""
    margin = round(size * 8 / 84)
    if min(images.shape[2:]) + 2 * margin < size:
        return center_crop(images, size)  # raises
    return random_crop(F.pad(images, (margin, margin, margin, margin)), size, generator)


def _uniform(low: float, high: float, shape: tuple[int, ...], generator: Generator) -> Float[Tensor, "..."]:
    return torch.rand(shape, generator=generator) * (high - low) + low


def _offset(slack: Int[Tensor, "*B"], generator: Generator) -> Int[Tensor, "*B"]:
    """A whole number from 0 to `slack` for each element."""
    return (torch.rand(slack.shape, generator=generator) * (slack + 1)).long()


STEPS: dict[str, Callable[..., Tensor]] = {
    "resized_crop": random_resized_crop,
    "color_jitter": random_color_jitter,
    "flip": random_flip,
    "crop": random_crop,
    "pad_crop": random_pad_crop,
}
