"""The SVM head against scikit-learn's of Crammer and Singer, and its projection against a search."""

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from sklearn.svm import LinearSVC

from fewset.models.heads.svm import SvmHead, onto_simplex
from tests.helpers.heads import DIM, TASKS, WAY, inputs, normal, uneven_mask, with_and_without_mask


@with_and_without_mask
@pytest.mark.parametrize("penalty", [0.1, 1.0])
def test_equals_scikit_learn(penalty, mask):
    support, query = inputs()
    head = SvmHead(DIM, penalty, scale=2.5, steps=500).double()
    found = head(support, query, mask).detach().numpy()
    for task in range(TASKS):
        kept = np.ones((WAY, 3), dtype=bool) if mask is None else mask[task].numpy()
        labels = np.repeat(np.arange(WAY), kept.sum(axis=1))
        machine = LinearSVC(
            C=penalty, multi_class="crammer_singer", fit_intercept=False, class_weight="balanced",
            tol=1e-10, max_iter=100_000, random_state=0,
        )  # fmt: skip
        machine.fit(support[task].numpy()[kept], labels)
        expected = 2.5 * query[task].numpy() @ machine.coef_.T
        np.testing.assert_allclose(found[task], expected, atol=1e-5)


def test_the_default_steps_are_enough():
    few, many = (SvmHead(DIM, steps=steps).double() for steps in (60, 2000))
    support, query = inputs()
    for mask in (None, uneven_mask()):
        torch.testing.assert_close(few(support, query, mask), many(support, query, mask), atol=1e-3, rtol=0)


def test_projection_onto_the_simplex():
    rows, totals = normal(11, 5, seed=1), normal(11, 1, seed=2).abs()
    totals[3] = 0
    for row, total, found in zip(rows.numpy(), totals[:, 0].numpy(), onto_simplex(rows, totals), strict=True):

        def excess(shift, row=row, total=total):
            return np.maximum(row - shift, 0).sum() - total

        shift = brentq(excess, row.min() - 10, row.max(), xtol=1e-14)
        np.testing.assert_allclose(found, np.maximum(row - shift, 0), atol=1e-10)


def test_the_gradient_is_that_of_the_steps():
    support, query = normal(1, 3, 2, 5, seed=4), normal(1, 2, 5, seed=5)
    head = SvmHead(5, penalty=1.0).double()
    given = support.requires_grad_(), query.requires_grad_()
    assert torch.autograd.gradcheck(head, given, atol=1e-5, rtol=1e-3)
