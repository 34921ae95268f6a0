"""Matching Network's head against NumPy: the paper's formula, and the authors' arithmetic."""

import math

import numpy as np
import torch

from fewset.models.heads.matching import MatchingHead
from tests.helpers.heads import (
    DIM,
    QUERIES,
    TASKS,
    WAY,
    assert_equals_the_loop,
    cosine,
    inputs,
    with_and_without_mask,
)


@with_and_without_mask
def test_equals_the_loop(mask):
    """The paper's supplement: p(class) = sum over its shots of exp(γ cos) / sum over all shots of it."""

    def naive(shots, queries):
        rows = []
        for q in queries:
            weights = [[math.exp(cosine(q, shot) / 0.3) for shot in class_shots] for class_shots in shots]
            total = sum(sum(class_weights) for class_weights in weights)
            rows.append([math.log(sum(class_weights) / total) for class_weights in weights])
        return rows

    assert_equals_the_loop(MatchingHead(DIM, temperature=0.3), naive, mask)


def test_probabilities_sum_to_one_and_survive_a_small_temperature():
    support, query = inputs()
    logits = MatchingHead(DIM, temperature=1e-4)(support, query)
    torch.testing.assert_close(logits.exp().sum(-1), torch.ones(TASKS, QUERIES, dtype=torch.float64))
    assert logits.isfinite().all()


@with_and_without_mask
def test_as_published_equals_the_authors_arithmetic(mask):
    """Normalised support, raw query, similarities times the one-hot labels, over the temperature."""

    def naive(shots, queries):
        support = np.concatenate([s / np.linalg.norm(s, axis=1, keepdims=True) for s in shots])
        one_hot = np.concatenate([np.eye(WAY)[[n] * len(s)] for n, s in enumerate(shots)])
        return queries @ support.T @ one_hot / 16.0

    assert_equals_the_loop(MatchingHead(DIM, temperature=16.0, as_published=True), naive, mask)
