"""Tasks with unequal shots for the heads of the classifier."""

import numpy as np
import torch
from torch import Tensor

from fewset.classify.heads import ClassifierHead, Solution, signed_power
from fewset.classify.trust.leave_one_out import left_out_turns
from fewset.models.regression import membership

SHOTS = (1, 4, 2, 7, 3)
DIM = 29


def task(seed: int, dim: int = DIM, shots: tuple[int, ...] = SHOTS) -> tuple[Tensor, Tensor, Tensor]:
    """Rows like an encoder's (no number below 0), their labels, and queries."""
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(shots)), shots)
    means = generator.exponential(size=(len(shots), dim))
    rows = means[labels] * generator.exponential(size=(len(labels), dim))
    query = means[np.arange(13) % len(shots)] * generator.exponential(size=(13, dim))
    return torch.from_numpy(rows), torch.from_numpy(labels), torch.from_numpy(query)


def prepare(head: ClassifierHead, features: Tensor) -> Tensor:
    return signed_power(features, head.power)


def solve(head: ClassifierHead, rows: Tensor, labels: Tensor) -> Solution:
    return head.solve(rows.unsqueeze(0), membership(labels, int(labels.max()) + 1, rows.dtype).unsqueeze(0))


def answers(head: ClassifierHead, rows: Tensor, labels: Tensor, query: Tensor) -> Tensor:
    return solve(head, prepare(head, rows), labels).logits(prepare(head, query).unsqueeze(0))[0]


def unit(row: np.ndarray) -> np.ndarray:
    """A row at length 1."""
    return row / np.sqrt((row**2).sum())


def labelled_rows(
    seed: int, shots: tuple[int, ...] = (3, 5, 4), dim: int = 13
) -> tuple[np.ndarray, np.ndarray]:
    """Rows like an encoder's around the same means for every seed, and their labels."""
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(shots)), shots)
    means = np.random.default_rng(0).exponential(size=(len(shots), dim))
    return (means[labels] * generator.uniform(0.5, 1.5, size=(len(labels), dim))).astype(np.float32), labels


def left_out_by_refitting(
    head: ClassifierHead, features: np.ndarray, labels: np.ndarray, copies: np.ndarray, fits: int = 20
) -> np.ndarray:
    """Each photo classified after a fit on the features of those with another turn, in all dimensions."""
    turns = left_out_turns(labels, copies, fits)
    several = {label for label in labels if len(set(turns[labels == label])) > 1}
    logits = np.full((len(labels), labels.max() + 1), np.nan)
    for number, label in enumerate(labels):
        if label in several:
            # A class whose photos all have one turn would be gone; they stay in.
            stay = [
                other
                for other in range(len(labels))
                if turns[other] != turns[number] or labels[other] not in several
            ]
            parts = (torch.from_numpy(part) for part in (features[stay], labels[stay], features[[number]]))
            logits[number] = answers(head, *parts)[0].numpy()
    return logits
