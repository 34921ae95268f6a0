"""A domain in which other classes teach something: most axes are noise, the same ones for every class."""

import numpy as np
import torch

from fewset.classify.background.head import AdaptedHead

TELLING, NOISE = 5, 12


def domain_rows(seed: int, classes: int, shots: int, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows around class means that differ on a few axes, and their labels, from `first` on."""
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(first, first + classes), shots)
    means = generator.uniform(0, 2, size=(classes, TELLING))[labels - first]
    telling = means + generator.uniform(0, 0.5, size=means.shape)
    noise = generator.uniform(0, 3, size=(len(labels), NOISE))
    return np.concatenate([telling, noise], axis=1).astype(np.float32), labels


def noise_rows(seed: int, classes: int, shots: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that have nothing to do with their labels."""
    labels = np.repeat(np.arange(classes), shots)
    return np.random.default_rng(seed).uniform(size=(len(labels), TELLING + NOISE)).astype(np.float32), labels


def random_head(dim: int) -> AdaptedHead:
    """With weights that adapt, as training would leave them."""
    torch.manual_seed(0)
    head = AdaptedHead(dim)
    for parameter in head.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return head.finished()
