"""SimpleShot's head against NumPy, and its mean of the training features."""

import math

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.models.heads.simple_shot import SimpleShotHead
from tests.helpers.embedded import distance
from tests.helpers.heads import DIM, assert_equals_the_loop, inputs, normal, with_and_without_mask


@with_and_without_mask
@pytest.mark.parametrize("transform", ["none", "l2n", "cl2n"])
def test_equals_the_loop(transform, mask):
    features = normal(13, DIM, seed=3)

    def changed(x: np.ndarray) -> np.ndarray:
        if transform == "cl2n":
            x = x - features.numpy().mean(axis=0)
        return x if transform == "none" else x / math.sqrt(x @ x)

    def naive(shots, queries):
        centroids = [np.mean([changed(shot) for shot in class_shots], axis=0) for class_shots in shots]
        return [[-distance(changed(q), centroid) / 2.5 for centroid in centroids] for q in queries]

    head = SimpleShotHead(DIM, transform=transform, temperature=2.5).double()
    head.fit(features)
    assert_equals_the_loop(head, naive, mask)


@pytest.mark.parametrize(("transform", "keys"), [("none", []), ("l2n", []), ("cl2n", ["mean"])])
def test_the_mean_is_saved_where_there_is_one(transform, keys):
    assert list(SimpleShotHead(DIM, transform=transform).state_dict()) == keys


def test_without_its_mean_it_says_what_to_do():
    head, (support, query) = SimpleShotHead(DIM, transform="cl2n").double(), inputs()
    with pytest.raises(UserError, match=r"not set; call head\.fit"):
        head(support, query)
    loaded = SimpleShotHead(DIM, transform="cl2n").double()
    loaded.load_state_dict(head.state_dict())
    with pytest.raises(UserError, match=r"not set; call head\.fit"):
        loaded(support, query)


def test_refuses_an_unknown_transform():
    with pytest.raises(UserError, match="unknown transform 'l2'"):
        SimpleShotHead(DIM, transform="l2")
