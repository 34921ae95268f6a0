import numpy as np
import pytest
import torch

from fewset.evaluation.scoring import task_accuracy
from fewset.models.adapters import ADAPTERS
from fewset.models.adapters.identity import Identity
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.losses import contrastive_logits, task_loss
from fewset.models.model import FewShotModel
from fewset.models.similarity import negative_squared_euclidean


def test_task_loss_against_a_loop() -> None:
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(2, 7, 3))
    labels = generator.integers(3, size=(2, 7))
    found = task_loss(torch.from_numpy(logits), torch.from_numpy(labels)).numpy()
    for task in range(2):
        for place in range(7):
            scores = np.exp(logits[task, place])
            expected = -np.log(scores[labels[task, place]] / scores.sum())
            np.testing.assert_allclose(found[task, place], expected)


@pytest.mark.parametrize("scored", ["adapted", "unadapted"])
def test_contrastive_logits_against_a_loop(scored: str) -> None:
    """With a set function that is easy to write down: each item plus twice the maximum of its set."""
    items = np.random.default_rng(1).normal(size=(2, 3, 5, 7))

    def transform(sets: torch.Tensor, context: None, labels: torch.Tensor) -> torch.Tensor:
        assert context is None
        assert not labels.any()
        return sets + 2 * sets.amax(1, keepdim=True)

    logits, labels = contrastive_logits(
        transform, torch.from_numpy(items), negative_squared_euclidean, 11.0, scored
    )
    adapted = np.array([[one + 2 * one.max(0) for one in task] for task in items])
    instances = adapted if scored == "adapted" else items
    for task in range(2):
        for place in range(15):
            instance = instances[task, place // 5, place % 5]
            assert labels[task, place] == place // 5
            for way in range(3):
                expected = -((instance - adapted[task, way].mean(0)) ** 2).sum() / 11
                np.testing.assert_allclose(logits[task, place, way].item(), expected, rtol=1e-9)


@pytest.mark.parametrize("name", sorted(ADAPTERS))
def test_auxiliary_accuracy_on_separable_data_is_perfect(name: str) -> None:
    """Labels in another order than the items, a defect of published code, would leave chance here."""
    dim = 14  # even, for the two directions of a BiLSTM
    torch.manual_seed(0)
    model = FewShotModel(Identity(dim), ADAPTERS[name](dim), PrototypeHead(dim)).eval()
    centres = 20 * torch.eye(dim)[:5]
    items = centres[None, :, None] + 0.01 * torch.randn(3, 5, 7, dim)
    logits, labels = contrastive_logits(model.transform, items, negative_squared_euclidean, 1.0)
    assert task_accuracy(logits, labels).tolist() == [1.0] * 3
