"""The logistic regression head against scikit-learn's."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fewset.models.heads.logistic import LogisticRegressionHead
from tests.helpers.heads import DIM, TASKS, WAY, inputs, with_and_without_mask


@with_and_without_mask
@pytest.mark.parametrize("intercept", [True, False])
def test_equals_scikit_learn(intercept, mask):
    support, query = inputs()
    head = LogisticRegressionHead(DIM, 2.0, steps=3000, intercept=intercept, temperature=0.5)
    found = head(support, query, mask).numpy()
    for task in range(TASKS):
        kept = np.ones((WAY, 3), dtype=bool) if mask is None else mask[task].numpy()
        rows, queries = support[task].numpy()[kept], query[task].numpy()
        if intercept:  # penalised, as a number that is always 1
            rows, queries = (np.hstack([x, np.ones((len(x), 1))]) for x in (rows, queries))
        labels = np.repeat(np.arange(WAY), kept.sum(axis=1))
        regression = LogisticRegression(C=2.0, fit_intercept=False, class_weight="balanced", tol=1e-10)
        regression.fit(rows, labels)
        np.testing.assert_allclose(found[task], queries @ regression.coef_.T / 0.5, atol=2e-4)
