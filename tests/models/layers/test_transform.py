"""Steps on features and SimpleShot's transforms against NumPy, and what stands for a mean that is not set."""

from itertools import permutations

import numpy as np
import pytest
import torch

from fewset.core.errors import UserError
from fewset.models.backbones.features import FeatureInput
from fewset.models.layers.transform import STEPS, TRANSFORMS, FeatureTransform, transformed, unset_mean

ROWS, MORE, DIM = 3, 5, 7


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_equals_the_loop(transform: str) -> None:
    generator = np.random.default_rng(0)
    features, centre = generator.normal(size=(ROWS, MORE, DIM)), generator.normal(size=DIM)
    mean = torch.from_numpy(centre) if transform == "cl2n" else None
    found = transformed(torch.from_numpy(features), transform, mean, "do nothing")
    for row in np.ndindex(ROWS, MORE):
        expected = features[row] - centre if transform == "cl2n" else features[row]
        if transform != "none":
            expected = expected / np.sqrt((expected**2).sum())
        np.testing.assert_allclose(found[row], expected, rtol=1e-12)


def test_only_a_transform_that_subtracts_a_mean_has_one() -> None:
    means = {transform: unset_mean(transform, DIM) for transform in TRANSFORMS}
    assert [name for name, mean in means.items() if mean is not None] == ["cl2n"]
    assert means["cl2n"].shape == (DIM,)
    with pytest.raises(UserError, match="unknown transform 'l2'"):
        unset_mean("l2", DIM)


def test_a_mean_that_is_not_set_names_the_remedy() -> None:
    with pytest.raises(UserError, match="it is not set; call me first, or use transform='l2n'"):
        transformed(torch.ones(ROWS, DIM), "cl2n", unset_mean("cl2n", DIM), "call me")


@pytest.mark.parametrize(("transform", "keys"), [("none", []), ("l2n", []), ("cl2n", ["centre"])])
def test_the_backbone_of_features_saves_its_mean_where_there_is_one(transform: str, keys: list[str]) -> None:
    assert list(FeatureInput(DIM, transform).state_dict()) == keys


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
    with pytest.raises(UserError, match=r"it is not set; call model\.feature_transform\.fit"):
        unset(torch.ones(ROWS, DIM))
