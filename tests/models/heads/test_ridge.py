"""The ridge regression head against scikit-learn's, one task and one class at a time."""

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from fewset.models.heads.ridge import RidgeRegressionHead
from tests.helpers.heads import DIM, WAY, assert_equals_the_loop, with_and_without_mask


@with_and_without_mask
@pytest.mark.parametrize("intercept", [True, False])
def test_equals_the_loop(intercept, mask):
    def naive(shots, queries):
        rows = np.concatenate(shots)
        labels = np.repeat(np.arange(WAY), [len(each) for each in shots])
        mean = len(rows) / WAY
        weights = [mean / len(shots[label]) for label in labels]
        if intercept:
            rows, queries = (np.hstack([x, np.ones((len(x), 1))]) for x in (rows, queries))
        columns = []
        for n in range(WAY):
            regression = Ridge(alpha=0.7, fit_intercept=False, solver="cholesky")
            columns.append(2.5 * regression.fit(rows, labels == n, weights).predict(queries))
        return np.stack(columns, axis=1)

    head = RidgeRegressionHead(DIM, scale=2.5, intercept=intercept).double()
    torch.nn.init.constant_(head.log_strength, math.log(0.7))
    assert_equals_the_loop(head, naive, mask)


def test_the_strength_is_learned_and_stays_positive():
    head = RidgeRegressionHead(DIM, strength=0.7)
    assert set(dict(head.named_parameters())) == {"log_strength", "scale"}
    assert head.log_strength.exp().item() == pytest.approx(0.7)
