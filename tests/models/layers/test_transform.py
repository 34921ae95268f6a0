"""The steps of a feature transform against NumPy, and a mean that is not set."""

from itertools import permutations

import numpy as np
import pytest
import torch

from fewset.core.errors import UserError
from fewset.models.layers.transform import STEPS, FeatureTransform

ROWS, MORE, DIM = 3, 5, 7


@pytest.mark.parametrize("steps", [(), *permutations(STEPS), ("l2", "power", "l2")], ids="-".join)
def test_steps_are_taken_one_after_another(steps: tuple[str, ...]) -> None:
    generator = np.random.default_rng(1)
    features, training = generator.normal(size=(ROWS, MORE, DIM)), generator.normal(size=(11, DIM))
    transform = FeatureTransform(DIM, steps).double()
    transform.fit(torch.from_numpy(training))
    found = transform(torch.from_numpy(features))
    for row in np.ndindex(ROWS, MORE):
        expected, others = features[row], list(training)
        for step in steps:
            mean = np.mean(others, axis=0)
            taken = {
                "power": lambda x: np.sign(x) * np.sqrt(np.abs(x)),
                "l2": lambda x: x / np.sqrt((x**2).sum()),
                "centre": lambda x, mean=mean: x - mean,
            }[step]
            expected, others = taken(expected), [taken(other) for other in others]
        np.testing.assert_allclose(found[row], expected, rtol=1e-10)


def test_zeros_stay_zeros_and_have_a_gradient() -> None:
    features = torch.zeros(ROWS, DIM, requires_grad=True)
    made = FeatureTransform(DIM, ("power", "l2"))(features)
    made.sum().backward()
    assert not made.any()
    assert features.grad is not None
    assert features.grad.isfinite().all()


def test_steps_that_cannot_be() -> None:
    with pytest.raises(
        UserError, match=r"unknown step of model\.feature_transform 'l2n'\. Did you mean 'l2'"
    ):
        FeatureTransform(DIM, ("l2n",))
    with pytest.raises(UserError, match="'centre' more than once"):
        FeatureTransform(DIM, ("centre", "l2", "centre"))
    unset = FeatureTransform(DIM, ("centre",))
    with pytest.raises(UserError, match=r"is not set; call model\.feature_transform\.fit"):
        unset(torch.ones(ROWS, DIM))
