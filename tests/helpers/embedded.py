"""Tiny tables of embeddings and models on them, for the tests of every setting."""

import numpy as np
import torch
from torch import nn

from fewset.models.adapters import ADAPTERS
from fewset.models.heads import HEADS
from fewset.models.model import FewShotModel

DIM = 14  # even, for the two directions of a BiLSTM


class Nothing(nn.Module):
    """A backbone that no test of a table calls."""

    dim, input_size, mean, std = DIM, 5, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)

    def __init__(self) -> None:
        super().__init__()
        self.unused = nn.Parameter(torch.zeros(1))


def model_with(
    adapter: str, head: str = "prototype", average: str = "pre", **options: object
) -> FewShotModel:
    torch.manual_seed(0)
    chosen = HEADS[head](DIM, **{"temperature": 3.0, **options})
    return FewShotModel(Nothing(), ADAPTERS[adapter](DIM), chosen, average).eval()


def table(classes: int = 7, items: int = 13, seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    """Embeddings in which classes overlap, in no order."""
    generator = np.random.default_rng(seed)
    labels = generator.permutation(np.repeat(np.arange(classes), items))
    centres = generator.normal(size=(classes, DIM))
    features = centres[labels] + 1.7 * generator.normal(size=(len(labels), DIM))
    return torch.from_numpy(features).float(), labels


def distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))
