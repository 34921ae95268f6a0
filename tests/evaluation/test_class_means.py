"""Means of classes over the rows of a table, and the centre that features are measured from."""

import numpy as np
import pytest
import torch

from fewset.core.errors import UserError
from fewset.data.features.table import FeatureTable
from fewset.evaluation.class_means import fit_centre, training_means
from fewset.models.adapters.identity import Identity
from fewset.models.backbones.conv4 import Conv4
from fewset.models.backbones.features import FeatureInput
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.model import FewShotModel
from tests.helpers.features import DIM, ROWS, SEEN, UNSEEN, feature_model, make_table, seen_mean, transformed


@pytest.fixture
def table() -> FeatureTable:
    return make_table(setups=np.zeros(SEEN + UNSEEN, dtype=int))


@pytest.mark.parametrize("transform", ["none", "l2n", "cl2n"])
def test_class_means_are_the_means_of_the_training_rows(table: FeatureTable, transform: str) -> None:
    model = feature_model(transform=transform)
    fit_centre(model, table)
    features = transformed(table.read(np.arange(ROWS)).astype(np.float64), transform, seen_mean(table))
    classes = np.array([13, 2, 7])
    expected = [features[(table.labels == number) & (table.roles == 0)].mean(axis=0) for number in classes]
    np.testing.assert_allclose(training_means(model, table, classes), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("transform", ["none", "cl2n"])
@pytest.mark.parametrize("chunk", [1, 7, 83, 1000])
def test_class_means_do_not_depend_on_the_chunk(table: FeatureTable, transform: str, chunk: int) -> None:
    model = feature_model(transform=transform)
    fit_centre(model, table)
    classes = table.classes("seen")
    assert torch.equal(training_means(model, table, classes, chunk), training_means(model, table, classes))


def test_a_class_without_training_rows_is_named(table: FeatureTable) -> None:
    table.roles[table.labels == 4] = 1
    with pytest.raises(UserError, match=r"class 'class 4' of 'table' has no training rows"):
        training_means(feature_model(), table, np.array([2, 4]))


def test_the_centre_is_part_of_the_weights(table: FeatureTable) -> None:
    model, other = feature_model(transform="cl2n"), feature_model(transform="cl2n")
    with pytest.raises(UserError, match="mean of the training features, which is not set"):
        training_means(model, table, table.classes("seen"))
    fit_centre(model, table)
    mean = model.feature_transform.mean
    assert mean is not None
    np.testing.assert_allclose(mean, seen_mean(table), rtol=1e-6)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other.feature_transform.mean, mean)  # type: ignore[arg-type]
    assert not feature_model(transform="l2n").state_dict()


def test_models_that_do_not_fit_are_rejected(table: FeatureTable) -> None:
    images = FewShotModel(Conv4(dim=DIM), Identity(DIM), PrototypeHead(DIM))
    with pytest.raises(UserError, match="takes images"):
        training_means(images, table, table.classes("seen"))
    wide = FewShotModel(FeatureInput(DIM + 1), Identity(DIM + 1), PrototypeHead(DIM + 1))
    with pytest.raises(UserError, match="dimension 6"):
        fit_centre(wide, table)
