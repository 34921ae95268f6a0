"""A model whose embeddings are the pixels, so that a test knows them without a line of fewset."""

import numpy as np
import torch
from torch import nn

from fewset.data.images.store import ImageSet
from fewset.models.adapters import ADAPTERS
from fewset.models.heads import HEADS
from fewset.models.model import FewShotModel

SIDE = 3


class Pixels(nn.Module):
    """A backbone whose embedding is the normalised pixels."""

    dim, input_size, mean, std = 3 * SIDE**2, SIDE, (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1)


def pixel_model(adapter: str) -> FewShotModel:
    torch.manual_seed(0)
    head = HEADS["prototype"](Pixels.dim, temperature=3.0)
    return FewShotModel(Pixels(), ADAPTERS[adapter](Pixels.dim), head).eval()


def pixel_features(images: ImageSet) -> torch.Tensor:
    """The embeddings of all items: pixels, normalised."""
    normalised = (images.images / 255 - np.array(Pixels.mean)) / np.array(Pixels.std)
    return torch.from_numpy(normalised.transpose(0, 3, 1, 2).reshape(len(normalised), -1)).float()
