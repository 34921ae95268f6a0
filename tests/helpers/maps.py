"""Convolutions and what follows them, place by place, in NumPy: for heads on maps (H, W, D)."""

import numpy as np
import torch
from torch import nn


def numbers(head: nn.Module) -> dict[str, np.ndarray]:
    """The weights and buffers of a head by their names."""
    return {name: value.detach().numpy() for name, value in head.state_dict().items()}


def with_statistics(head: nn.Module, seed: int = 5) -> nn.Module:
    """The head in evaluation, in double precision, its normalisations as after some training."""
    generator = torch.Generator().manual_seed(seed)
    for module in head.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight, module.bias, module.running_mean, module.running_var):
                nn.init.uniform_(tensor, 0.5, 1.5, generator=generator)
    return head.double().eval()


def convolved(image: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """A padded convolution, 3 x 3 or 1 x 1."""
    height, width, _ = image.shape
    size, out = weight.shape[-1], np.zeros((*image.shape[:2], len(weight)))
    for y in range(height):
        for x in range(width):
            for i in range(size):
                for j in range(size):
                    v, u = y + i - size // 2, x + j - size // 2
                    if 0 <= v < height and 0 <= u < width:
                        out[y, x] += weight[:, :, i, j] @ image[v, u]
    return out


def normalised(image: np.ndarray, of: dict[str, np.ndarray], name: str) -> np.ndarray:
    """BatchNorm in evaluation."""
    deviation = np.sqrt(of[f"{name}.running_var"] + 1e-5)
    return (image - of[f"{name}.running_mean"]) / deviation * of[f"{name}.weight"] + of[f"{name}.bias"]


def halved(image: np.ndarray) -> np.ndarray:
    """The maximum of 2 x 2; at an odd end of what is there."""
    height, width, _ = image.shape
    rows = [
        [image[y : y + 2, x : x + 2].max(axis=(0, 1)) for x in range(0, width, 2)]
        for y in range(0, height, 2)
    ]
    return np.array(rows)
