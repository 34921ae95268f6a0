import numpy as np
import pytest
import torch
from torch import nn

from fewset.evaluation.embedding import embed_images, evaluating
from fewset.evaluation.scoring import evaluate
from fewset.models.adapters import ADAPTERS
from fewset.models.adapters.identity import Identity
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.model import FewShotModel
from fewset.tasks.sampling import ClassIndex, sample_tasks
from fewset.tasks.spec import TaskSpec

DIM = 14  # even, for the two directions of a BiLSTM


class Pixels(nn.Module):
    """A backbone that counts the images it sees: their mean colour, repeated."""

    dim, input_size, mean, std = DIM, 5, (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.seen = 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.seen += len(images)
        return self.scale * images.mean((2, 3)).repeat(1, 5)[:, :DIM]


def model_with(adapter: str) -> FewShotModel:
    torch.manual_seed(0)
    return FewShotModel(Pixels(), ADAPTERS[adapter](DIM), PrototypeHead(DIM, temperature=3.0))


def table(classes: int = 7, items: int = 13, seed: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    """Embeddings in which classes overlap."""
    generator = np.random.default_rng(seed)
    labels = generator.permutation(np.repeat(np.arange(classes), items))
    features = generator.normal(size=(classes, DIM))[labels] + generator.normal(size=(len(labels), DIM))
    return torch.from_numpy(features).float(), labels


SPEC = TaskSpec(way=3, shot=2, query=5, tasks=31, seed=2)


def test_protonet_against_a_loop() -> None:
    features, labels = table()
    score = evaluate(model_with("identity"), features, labels, SPEC)
    index = ClassIndex(labels)
    for number in range(SPEC.tasks):
        (rows,) = sample_tasks(index, SPEC, number, number + 1)
        centres = [features[one[:2]].numpy().mean(0) for one in rows]
        right = 0
        for way, one in enumerate(rows):
            for row in one[2:]:
                distances = [((features[row].numpy() - centre) ** 2).sum() for centre in centres]
                right += int(np.argmin(distances) == way)
        assert score.per_task[number] == pytest.approx(right / 15)
    assert 0.4 < score.mean < 0.95  # neither trivial nor chance


@pytest.mark.parametrize("adapter", sorted(ADAPTERS))
def test_results_do_not_depend_on_the_chunk(adapter: str) -> None:
    features, labels = table()
    scores = [
        evaluate(model_with(adapter), features, labels, SPEC, chunk=chunk)
        for chunk in (1, 2, 7, 31, 100, None)
    ]
    for score in scores[1:]:
        np.testing.assert_array_equal(score.per_task, scores[0].per_task)


def test_the_table_may_be_of_tensors_or_of_arrays() -> None:
    features, labels = table()
    first = evaluate(model_with("identity"), features, labels, SPEC)
    second = evaluate(model_with("identity"), features.numpy(), torch.from_numpy(labels), SPEC)
    np.testing.assert_array_equal(first.per_task, second.per_task)


def test_a_prefix_of_the_tasks_is_the_same_tasks() -> None:
    features, labels = table()
    few = TaskSpec(way=3, shot=2, query=5, tasks=17, seed=2)
    long, short = (evaluate(model_with("attention"), features, labels, spec) for spec in (SPEC, few))
    np.testing.assert_array_equal(long.per_task[:17], short.per_task)


def test_every_image_is_embedded_once_in_order() -> None:
    images = np.random.default_rng(0).integers(0, 256, size=(23, 7, 7, 3), dtype=np.uint8)
    rows = np.array([5, 3, 19, 7, 11])
    model = model_with("identity")
    found = embed_images(model, images, rows, batch=2)
    assert model.backbone.seen == 5
    for place, row in enumerate(rows):
        crop = images[row, 1:6, 1:6].astype(np.float64) / 255
        expected = np.tile((crop.mean((0, 1)) - 0.5) / 0.25, 5)[:DIM]
        np.testing.assert_allclose(found[place].numpy(), expected, atol=1e-6)


def test_evaluating_gives_every_module_its_own_mode_back() -> None:
    model = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout())).train()
    model[1].eval()
    with evaluating(model):
        assert not model[0].training
        assert torch.is_inference_mode_enabled()
    assert model[0].training
    assert not model[1].training


def test_identity_is_identity() -> None:
    items = torch.randn(2, 3, DIM)
    assert Identity(DIM)(items) is items
