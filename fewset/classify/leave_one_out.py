"""Every labelled photo classified by the others: what the classifier would have said, had it not seen it.

Nothing of the left-out photo may remain, neither in the mean that the rows are centred on nor in any other
statistic: a classifier that centres on it shows 100 %. So each answer comes from a fit without it, as one
task of a batch, solved in the span of the rows.
"""

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fewset.classify.heads import ClassifierHead, membership

_WORK = 2e10
"""Multiplications that may be spent on all the fits together, a second or so. With more photos than that
allows they are left out in groups."""
_CHUNK_NUMBERS = 2**22


def left_out_logits(
    head: ClassifierHead,
    rows: Float[Tensor, "n D"],
    labels: Int[np.ndarray, "n"],
    way: int,
    duplicates: Int[np.ndarray, "n"] | None = None,
    work: float = _WORK,
) -> Float[np.ndarray, "n N"]:
    """The logits of each prepared row from a fit without it; NaN where its class has no other row.

    `duplicates` numbers the rows so that copies of one photo have one number: they are left out together.
    Where `n` fits are too many, photos are left out in groups that lie across the classes.
    """
    copies = np.arange(len(labels)) if duplicates is None else np.unique(duplicates, return_inverse=True)[1]
    groups = _groups(labels, copies, _affordable(len(rows), rows.shape[1], work))
    testable = _testable(labels, groups, way)
    logits = np.full((len(labels), way), np.nan)
    coordinates = _coordinates(rows)
    for chunk in _chunks(np.unique(groups[testable]), len(rows) * max(way, coordinates.shape[1])):
        # Rows that cannot be tested are in no group that is left out.
        out = torch.from_numpy((groups == chunk[:, None]) & testable)
        members = membership(torch.from_numpy(labels), way, rows.dtype) * ~out.unsqueeze(-1)
        solution = head.solve(coordinates.expand(len(chunk), -1, -1), members)
        answers = solution.logits(coordinates.expand(len(chunk), -1, -1))
        tasks, places = torch.nonzero(out, as_tuple=True)
        logits[places.numpy()] = answers[tasks, places].numpy()
    return logits


def _affordable(count: int, dim: int, work: float) -> int:
    small, large = sorted((count, dim))
    return max(2, int(work / (small**3 / 3 + small**2 * large)))


def _groups(labels: Int[np.ndarray, "n"], copies: Int[np.ndarray, "n"], most: int) -> Int[np.ndarray, "n"]:
    """A number for each row: rows of one number are left out together. Copies always have one number.

    Dealt out class after class, so that a group takes few rows of any one class.
    """
    first = np.full(copies.max() + 1, len(labels))
    order = np.lexsort((copies, labels))
    np.minimum.at(first, copies[order], np.arange(len(labels)))
    _, place = np.unique(first, return_inverse=True)
    numbers: Int[np.ndarray, n] = place[copies] % most
    return numbers


def _testable(labels: Int[np.ndarray, "n"], groups: Int[np.ndarray, "n"], way: int) -> Bool[np.ndarray, "n"]:
    """Whether the class of a row has a row in another group."""
    first = np.full(way, -1)
    first[labels] = groups
    several = np.zeros(way, dtype=bool)
    several[labels[groups != first[labels]]] = True
    return np.asarray(several[labels])


def _coordinates(rows: Float[Tensor, "n D"]) -> Float[Tensor, "n d"]:
    """The rows in the fewest dimensions, by a rotation, which no head sees."""
    return torch.linalg.qr(rows.mT, mode="r").R.mT if len(rows) < rows.shape[1] else rows


def _chunks(groups: Int[np.ndarray, "g"], numbers: int) -> Iterator[Int[np.ndarray, "c"]]:
    size = max(1, _CHUNK_NUMBERS // numbers)
    for start in range(0, len(groups), size):
        yield groups[start : start + size]
