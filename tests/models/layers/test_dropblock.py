"""DropBlock against a naive NumPy version: the dropped cells are the union of full blocks."""

import numpy as np
import pytest
import torch

from fewset.models.layers.dropblock import DropBlock, blocks_at, drop_block

B, C, H, W = 2, 3, 11, 13


def naive_blocks(corners: np.ndarray, size: int) -> np.ndarray:
    batch, channels, rows, columns = corners.shape
    dropped = np.zeros((batch, channels, rows + size - 1, columns + size - 1), dtype=bool)
    for image, channel, row, column in np.argwhere(corners):
        dropped[image, channel, row : row + size, column : column + size] = True
    return dropped


@pytest.mark.parametrize("size", [1, 2, 5, 7])
@pytest.mark.parametrize("rate", [0.0, 0.03, 0.3, 1.0])
def test_blocks_are_full_squares_at_the_marked_corners(size: int, rate: float) -> None:
    corners = np.random.default_rng(size).random((B, C, H - size + 1, W - size + 1)) < rate
    dropped = blocks_at(torch.from_numpy(corners), size).numpy()
    np.testing.assert_array_equal(dropped, naive_blocks(corners, size))


@pytest.mark.parametrize("size", [1, 3, 5])
def test_drops_full_blocks_and_scales_the_rest_by_the_kept_fraction(size: int) -> None:
    torch.manual_seed(0)
    features = torch.rand(B, C, H, W) + 1
    result = drop_block(features, 0.2, size)
    dropped = (result == 0).numpy()
    # Some corners explain exactly the dropped cells: those whose block is dropped as a whole.
    windows = np.lib.stride_tricks.sliding_window_view(dropped, (size, size), axis=(2, 3))
    np.testing.assert_array_equal(naive_blocks(windows.all(axis=(4, 5)), size), dropped)
    assert 0 < dropped.sum() < dropped.size
    expected = np.where(dropped, 0, features.numpy() * dropped.size / (~dropped).sum())
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("size", "height", "width"), [(1, 11, 13), (5, 11, 13), (5, 5, 5), (5, 3, 7), (5, 1, 1)]
)
def test_the_rate_is_the_fraction_dropped(size: int, height: int, width: int) -> None:
    """Up to blocks that overlap, which are few at a small rate; also on maps smaller than the block."""
    torch.manual_seed(0)
    result = drop_block(torch.ones(97, 211, height, width), 0.02, size)
    assert (result == 0).float().mean().item() == pytest.approx(0.02, rel=0.12)


def test_is_the_identity_in_evaluation_and_at_rate_zero() -> None:
    features = torch.randn(B, C, H, W)
    module = DropBlock(3)
    assert not torch.equal(module(features, 0.5), features)
    assert torch.equal(module(features, 0.0), features)
    assert torch.equal(module.eval()(features, 0.5), features)
