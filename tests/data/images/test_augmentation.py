"""Augmentation against Pillow, kornia and naive NumPy, with every dimension a different prime."""

import numpy as np
import pytest
import torch
from kornia.enhance import (
    adjust_brightness_accumulative,
    adjust_contrast_with_mean_subtraction,
    adjust_saturation_with_gray_subtraction,
)
from PIL import Image
from torch import Tensor

from fewset.core.errors import UserError
from fewset.data.images import augmentation as module
from fewset.data.images.augmentation import STEPS, augment, center_crop, flip, resized_crop

B, H, W, SIZE = 5, 31, 29, 23


@pytest.fixture
def images() -> Tensor:
    """Random bytes as they come from the store: interleaved, seen as planes."""
    bytes_ = np.random.default_rng(0).integers(0, 256, (B, H, W, 3), dtype=np.uint8)
    return torch.from_numpy(bytes_).permute(0, 3, 1, 2)


@pytest.mark.parametrize("steps", [[], *([step] for step in STEPS), list(STEPS), list(STEPS)[::-1]])
def test_every_order_of_steps_gives_floats_of_the_size_within_the_range(
    images: Tensor, steps: list[str]
) -> None:
    before = images.clone()
    result = augment(images, steps, SIZE, seed=3)
    assert result.shape == (B, 3, SIZE, SIZE)
    assert result.dtype == torch.float32
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert result.min() >= 0
    assert result.max() <= 255
    assert torch.equal(images, before)


@pytest.mark.parametrize("step", STEPS)
def test_the_seed_decides_and_nothing_else(images: Tensor, step: str) -> None:
    first = augment(images, [step], SIZE, seed=3)
    torch.manual_seed(7)
    assert torch.equal(first, augment(images, [step], SIZE, seed=3))
    assert not torch.equal(first, augment(images, [step], SIZE, seed=4))
    assert torch.allclose(first, augment(images.contiguous(), [step], SIZE, seed=3), atol=1)


@pytest.mark.parametrize("steps", [[step] for step in STEPS] + [list(STEPS)])
def test_one_image_never_influences_another(images: Tensor, steps: list[str]) -> None:
    changed = images.clone()
    changed[2] = 255 - changed[2]
    same = [0, 1, 3, 4]
    first, second = (augment(batch, steps, SIZE, seed=3) for batch in (images, changed))
    assert torch.equal(first[same], second[same])
    assert not torch.equal(first[2], second[2])


@pytest.mark.parametrize("step", STEPS)
def test_images_of_a_batch_are_changed_differently(images: Tensor, step: str) -> None:
    alike = images[:1].expand(B, -1, -1, -1)
    assert len(augment(alike, [step], SIZE, seed=4).unique(dim=0)) > 1


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_resized_crop_is_pillows(images: Tensor, dtype: torch.dtype) -> None:
    top, left = torch.tensor([0, 3, 7, 20, 0]), torch.tensor([0, 5, 11, 0, 24])
    height, width = torch.tensor([31, 28, 13, 11, 31]), torch.tensor([29, 7, 17, 29, 5])
    result = resized_crop(images.to(dtype), top, left, height, width, SIZE)
    for i in range(B):
        y, x, h, w = (int(values[i]) for values in (top, left, height, width))
        image = Image.fromarray(images[i].permute(1, 2, 0).numpy()).crop((x, y, x + w, y + h))
        expected = np.asarray(image.resize((SIZE, SIZE), Image.Resampling.BILINEAR))
        # Pillow rounds to whole bytes after each of its two passes.
        np.testing.assert_allclose(result[i].permute(1, 2, 0).numpy(), expected.astype(float), atol=1.01)


def naive_box(side: int, random: np.random.Generator) -> tuple[int, int, int, int]:
    """The box of torchvision's RandomResizedCrop: draw until one fits."""
    while True:
        area, aspect = random.uniform(0.08, 1) * side**2, np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3)))
        height, width = round(np.sqrt(area / aspect)), round(np.sqrt(area * aspect))
        if height <= side and width <= side:
            top, left = random.integers(side - height + 1), random.integers(side - width + 1)
            return int(top), int(left), height, width


def test_resized_crop_draws_boxes_as_torchvision_does(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Tensor] = []

    def record(_images: Tensor, *box: Tensor | int) -> Tensor:
        drawn.append(torch.stack(box[:4]))  # type: ignore[arg-type]
        return torch.zeros(len(_images), 3, SIZE, SIZE)

    monkeypatch.setattr(module, "resized_crop", record)
    many, side = 4001, 53
    augment(
        torch.zeros(1, 3, side, side, dtype=torch.uint8).expand(many, -1, -1, -1), ["resized_crop"], SIZE, 3
    )
    ours = drawn[0].numpy()
    random = np.random.default_rng(0)
    naive = np.array([naive_box(side, random) for _ in range(many)]).T
    quantiles = [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1]
    for values, expected in zip(ours, naive, strict=True):
        np.testing.assert_allclose(np.quantile(values, quantiles), np.quantile(expected, quantiles), atol=1)
    for measure in (lambda _t, _l, h, w: h * w / side**2, lambda _t, _l, h, w: w / h):
        np.testing.assert_allclose(measure(*ours).mean(), measure(*naive).mean(), atol=0.015)
        np.testing.assert_allclose(measure(*ours).std(), measure(*naive).std(), atol=0.01)


def test_resized_crop_of_an_image_far_from_square_stays_inside() -> None:
    images = torch.full((B, 3, 3, 67), 9, dtype=torch.uint8)
    assert (augment(images, ["resized_crop"], 2, seed=3) == 9).all()


@pytest.mark.parametrize(
    ("ours", "oracle"),
    [
        (module.adjust_brightness_, adjust_brightness_accumulative),
        (module.adjust_contrast_, adjust_contrast_with_mean_subtraction),
        (module.adjust_saturation_, adjust_saturation_with_gray_subtraction),
    ],
)
def test_colour_adjustments_are_kornias(images: Tensor, ours, oracle) -> None:  # type: ignore[no-untyped-def]
    factor = torch.tensor([0.6, 0.83, 1.0, 1.17, 1.4])
    expected = oracle(images.float() / 255, factor) * 255
    torch.testing.assert_close(ours(images.float(), factor.view(B, 1, 1, 1)), expected, atol=1e-3, rtol=0)


def test_color_jitter_of_a_grey_image_only_scales_and_shifts() -> None:
    """Factors can be read off a black-and-white image: brightness scales white, contrast joins the two."""
    images = torch.zeros(B, 3, 2, 2, dtype=torch.uint8)
    images[..., 0] = 100
    result = augment(images, ["color_jitter"], 2, seed=3)
    assert torch.allclose(result[:, :1].expand_as(result), result, atol=1e-3)
    black, white = result[:, 0, 0, 1], result[:, 0, 0, 0]
    brightness = (white + black) / 100
    assert ((brightness > 0.59) & (brightness < 1.41)).all()
    assert len(brightness.unique()) == B


def test_flip_mirrors_the_chosen_and_twice_is_nothing(images: Tensor) -> None:
    chosen = torch.tensor([True, False, True, True, False])
    expected = images.numpy().copy()
    for i in range(B):
        if chosen[i]:
            expected[i] = expected[i][:, :, ::-1]
    once = flip(images, chosen)
    np.testing.assert_array_equal(once.numpy(), expected)
    assert torch.equal(flip(once, chosen), images)


def test_flip_takes_about_half() -> None:
    images = torch.zeros(997, 3, 1, 2, dtype=torch.uint8)
    images[..., 0] = 1
    flipped = module.random_flip(images, 1, torch.Generator().manual_seed(3))[:, 0, 0, 1]
    assert 0.45 < flipped.float().mean() < 0.55


def test_rotation_is_a_turn_to_the_left() -> None:
    images = torch.randn(4, 3, 7, 7)
    turned = module.rotate(images, torch.tensor([0, 1, 2, 3]))
    for i in range(4):
        np.testing.assert_array_equal(turned[i].numpy(), np.rot90(images[i].numpy(), i, axes=(1, 2)))
    assert torch.equal(turned[1, :, 0, 0], images[1, :, 0, -1])  # what was at the right is at the top


def test_turns_are_drawn_for_a_share_of_the_classes() -> None:
    turns = module.draw_rotations(997, 0.6, torch.Generator().manual_seed(3)).numpy()
    counts = np.bincount(turns, minlength=4) / 997
    np.testing.assert_allclose(counts, [0.4, 0.2, 0.2, 0.2], atol=0.05)
    assert not module.draw_rotations(997, 0.0, torch.Generator().manual_seed(3)).any()
    assert module.draw_rotations(997, 1.0, torch.Generator().manual_seed(3)).all()


def test_pad_crop_is_a_window_of_the_image_with_black_margins() -> None:
    """Each pixel holds its own place, so that the window can be read off and compared with a naive crop."""
    side, size, margin = 47, 43, 4
    places = torch.arange(1, 1 + side * side).view(1, 1, side, side).expand(61, 3, side, side).float()
    result = module.random_pad_crop(places, size, torch.Generator().manual_seed(3))
    padded = np.pad(places[0, 0].numpy(), margin)
    found = set()
    for window in result.numpy():
        row, column = np.argwhere(padded == window[0, size // 2, size // 2])[0] - size // 2
        for plane in window:
            np.testing.assert_array_equal(plane, padded[row : row + size, column : column + size])
        found |= {("row", row), ("column", column)}
    slack = side + 2 * margin - size
    assert found == {(axis, offset) for axis in ("row", "column") for offset in range(slack + 1)}


def test_crop_is_any_window_of_the_image() -> None:
    side, size = 13, 11
    places = torch.arange(side * side).view(1, 1, side, side).expand(97, 3, side, side)
    result = module.random_crop(places, size, torch.Generator().manual_seed(3))
    corners = set()
    for window in result.numpy():
        row, column = divmod(int(window[0, 0, 0]), side)
        expected = places[0, :, row : row + size, column : column + size].numpy()
        np.testing.assert_array_equal(window, expected)
        corners.add((row, column))
    assert corners == {(row, column) for row in range(3) for column in range(3)}


def test_center_crop_is_a_view_of_the_middle(images: Tensor) -> None:
    cropped = center_crop(images, 19)
    assert cropped.untyped_storage().data_ptr() == images.untyped_storage().data_ptr()
    np.testing.assert_array_equal(cropped.numpy(), images.numpy()[:, :, 6:25, 5:24])
    assert torch.equal(augment(images, [], 19, seed=3), cropped.float())


@pytest.mark.parametrize("steps", [[], ["pad_crop"], ["crop"], ["color_jitter", "flip"]])
def test_too_small_images_are_refused_with_the_remedy(images: Tensor, steps: list[str]) -> None:
    with pytest.raises(UserError, match=r"31 x 29 pixels.* --size 41"):
        augment(images, steps, 41, seed=3)


def test_an_unknown_step_is_refused_with_the_known_ones(images: Tensor) -> None:
    with pytest.raises(UserError, match=r"unknown augmentation step 'flipp'.*'flip'.*resized_crop"):
        augment(images, ["flipp"], SIZE, seed=3)
