"""Tasks with unequal shots for the heads of the classifier."""

import numpy as np

from fewset.classify.heads import ClassifierHead, Solution, membership, prepared
from fewset.classify.trust.leave_one_out import left_out_pairings

SHOTS = (1, 4, 2, 7, 3)
DIM = 29


def task(
    seed: int, dim: int = DIM, shots: tuple[int, ...] = SHOTS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows like an encoder's (no number below 0), their labels, and queries."""
    generator = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(shots)), shots)
    means = generator.exponential(size=(len(shots), dim))
    rows = means[labels] * generator.exponential(size=(len(labels), dim))
    query = means[np.arange(13) % len(shots)] * generator.exponential(size=(13, dim))
    return rows, labels, query


def prepare(head: ClassifierHead, features: np.ndarray) -> np.ndarray:
    return prepared(features, head.power)


def solve(head: ClassifierHead, rows: np.ndarray, labels: np.ndarray) -> Solution:
    return head.solve(rows[None], membership(labels, int(labels.max()) + 1)[None])


def answers(head: ClassifierHead, rows: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
    return solve(head, prepare(head, rows), labels).logits(prepare(head, query)[None])[0]


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
    """Each photo classified after fits on the features of those with another turn, in all dimensions."""
    pairings = left_out_pairings(labels, copies, fits)
    return np.mean([_refitted(head, features, labels, turns) for turns in pairings], axis=0)


def _refitted(
    head: ClassifierHead, features: np.ndarray, labels: np.ndarray, turns: np.ndarray
) -> np.ndarray:
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
            logits[number] = answers(head, features[stay], labels[stay], features[[number]])[0]
    return logits
