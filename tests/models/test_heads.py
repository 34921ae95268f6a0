"""What every head must do (a newly registered one is tested without being named), and each against NumPy."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fewset.models.heads import HEADS, register_head
from fewset.models.heads.matching import MatchingHead
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.heads.semi_prototype import SemiPrototypeHead
from fewset.models.heads.simple_shot import SimpleShotHead
from fewset.models.similarity import SIMILARITIES
from fewset.runtime.errors import UserError

TASKS, WAY, SHOT, QUERIES, DIM = 2, 5, 3, 11, 7

VARIANTS: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in HEADS] + [
    ("prototype", {"similarity": "cosine"}),
    ("prototype", {"similarity": "one-sided-cosine"}),
    ("matching", {"as_published": True}),
    ("simple_shot", {"transform": "l2n"}),
    ("simple_shot", {"transform": "cl2n"}),
    ("semi_prototype", {"similarity": "cosine", "steps": 3}),
]
IDS = ["-".join([name, *(f"{key}={value}" for key, value in options.items())]) for name, options in VARIANTS]
every_head = pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)


def normal(*shape: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def build(name: str, options: dict[str, Any], dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(11)
    head = HEADS[name](DIM, **options).to(dtype).eval()
    if hasattr(head, "fit"):
        head.fit(normal(13, DIM, seed=3, dtype=dtype))
    return head


def inputs(way: int = WAY, shot: int = SHOT, queries: int = QUERIES) -> tuple[Tensor, Tensor]:
    return normal(TASKS, way, shot, DIM, seed=1), normal(TASKS, queries, DIM, seed=2)


@every_head
@pytest.mark.parametrize(("way", "shot", "queries"), [(WAY, SHOT, QUERIES), (1, 1, 1), (2, 1, 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shape_and_type(name, options, way, shot, queries, dtype):
    support, query = (tensor.to(dtype) for tensor in inputs(way, shot, queries))
    logits = build(name, options, dtype)(support, query)
    assert logits.shape == (TASKS, queries, way)
    assert logits.dtype == dtype
    assert logits.isfinite().all()


@every_head
def test_permuting_the_classes_permutes_the_logits(name, options):
    head, (support, query) = build(name, options), inputs()
    order = torch.tensor([4, 2, 0, 1, 3])
    torch.testing.assert_close(head(support[:, order], query), head(support, query)[:, :, order])


@every_head
def test_permuting_the_shots_changes_nothing(name, options):
    head, (support, query) = build(name, options), inputs()
    torch.testing.assert_close(head(support[:, :, [2, 0, 1]], query), head(support, query))


@every_head
def test_permuting_the_queries_permutes_the_logits(name, options):
    head, (support, query) = build(name, options), inputs()
    torch.testing.assert_close(head(support, query.flip(1)), head(support, query).flip(1))


@every_head
def test_a_masked_shot_is_no_shot(name, options):
    """What lies under the mask does not matter; without its last shot a class has one shot less."""
    head, (support, query) = build(name, options), inputs()
    mask = torch.ones(TASKS, WAY, SHOT, dtype=torch.bool)
    torch.testing.assert_close(head(support, query, mask), head(support, query))
    mask[:, :, -1] = False
    fewer = head(support[:, :, :-1], query)
    support[:, :, -1] = 1000.0
    torch.testing.assert_close(head(support, query, mask), fewer)


@every_head
def test_shots_may_differ_by_class(name, options):
    head, (support, query) = build(name, options), inputs()
    mask = torch.ones(TASKS, WAY, SHOT, dtype=torch.bool)
    mask[0, 1, 0] = mask[1, 3, 1] = mask[1, 3, 2] = False
    expected = head(support, query, mask)
    support[~mask] = -7.0
    torch.testing.assert_close(head(support, query, mask), expected)
    assert not torch.allclose(head(support, query), expected)


@every_head
def test_tasks_never_influence_each_other(name, options):
    head, (support, query) = build(name, options), inputs()
    together = head(support, query)
    torch.testing.assert_close(head(support[:1], query[:1]), together[:1])
    support[1], query[1] = torch.nan, torch.nan
    torch.testing.assert_close(head(support, query)[0], together[0])


@every_head
def test_evaluating_twice_is_identical(name, options):
    head, (support, query) = build(name, options), inputs()
    assert torch.equal(head(support, query), head(support, query))


@every_head
def test_temperature_flattens_the_probabilities(name, options):
    support, query = inputs()
    certainty = [
        build(name, {**options, "temperature": temperature})(support, query).softmax(-1).amax(-1).mean()
        for temperature in (0.5, 5.0, 1e6)
    ]
    assert certainty[0] > certainty[1] > certainty[2]
    assert certainty[2] == pytest.approx(1 / WAY, abs=1e-4)


@every_head
def test_gradients_reach_support_and_queries(name, options):
    head, (support, query) = build(name, options), inputs()
    head(support.requires_grad_(), query.requires_grad_()).log_softmax(-1)[..., 0].sum().backward()
    for tensor in (support, query):
        assert tensor.grad.isfinite().all()
        assert tensor.grad.any()


@every_head
def test_separable_data_is_classified_rightly(name, options):
    """Class n lies around its own axis, every class as far from the training mean as any other."""
    centres = 3 * torch.eye(WAY, DIM, dtype=torch.float64)
    support = centres[None, :, None] + 0.1 * normal(TASKS, WAY, SHOT, DIM, seed=5)
    query = centres[None] + 0.1 * normal(TASKS, WAY, DIM, seed=6)
    assert build(name, options)(support, query).argmax(-1).tolist() == [list(range(WAY))] * TASKS


@every_head
def test_state_dict_holds_all_that_matters(name, options):
    head, (support, query) = build(name, options), inputs()
    other = HEADS[name](DIM, **options).double()
    other.load_state_dict(head.state_dict())
    assert torch.equal(other(support, query), head(support, query))


@every_head
def test_has_a_similarity_and_a_temperature(name, options):
    """The contrastive term scores with the head's own similarity."""
    head = build(name, {**options, "temperature": 2.5})
    assert head.similarity in SIMILARITIES.values()
    assert head.temperature == 2.5


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
def test_refuses_a_temperature_that_is_not_positive(name, temperature):
    with pytest.raises(UserError, match=r"temperature is .* expected a number above 0"):
        HEADS[name](DIM, temperature=temperature)


def test_refuses_unknown_options():
    for head in (PrototypeHead, SemiPrototypeHead):
        with pytest.raises(UserError, match=r"unknown similarity 'cosin'\. Did you mean 'cosine'"):
            head(DIM, similarity="cosin")
    with pytest.raises(UserError, match="unknown transform 'l2'"):
        SimpleShotHead(DIM, transform="l2")
    with pytest.raises(UserError, match="steps is -1"):
        SemiPrototypeHead(DIM, steps=-1)


def test_a_name_is_registered_once():
    with pytest.raises(UserError, match=r"'matching' is taken by .*MatchingHead"):

        @register_head("matching")
        class Another(nn.Module):
            pass


# Oracles, one task at a time


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / math.sqrt((a @ a) * (b @ b)))


def distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))


def uneven_mask() -> Tensor:
    mask = torch.ones(TASKS, WAY, SHOT, dtype=torch.bool)
    mask[0, 1, 0] = mask[1, 3, 1] = mask[1, 3, 2] = False
    return mask


def check(head: nn.Module, naive, mask: Tensor | None) -> None:
    """`naive(shots of each class, queries)` gives the logits of one task."""
    support, query = inputs()
    logits = head(support, query, mask).numpy()
    kept = np.ones((TASKS, WAY, SHOT), dtype=bool) if mask is None else mask.numpy()
    for task in range(TASKS):
        shots = [support[task, n].numpy()[kept[task, n]] for n in range(WAY)]
        expected = naive(shots, query[task].numpy())
        np.testing.assert_allclose(logits[task], expected, rtol=1e-10, atol=1e-12)


with_and_without_mask = pytest.mark.parametrize("mask", [None, uneven_mask()], ids=["even", "uneven"])


@with_and_without_mask
def test_prototype_equals_the_loop(mask):
    def euclidean(shots, queries):
        return [[-distance(q, class_shots.mean(axis=0)) / 2.5 for class_shots in shots] for q in queries]

    def by_cosine(shots, queries):
        return [[cosine(q, class_shots.mean(axis=0)) / 0.5 for class_shots in shots] for q in queries]

    check(PrototypeHead(DIM, temperature=2.5), euclidean, mask)
    check(PrototypeHead(DIM, similarity="cosine", temperature=0.5), by_cosine, mask)


@with_and_without_mask
def test_matching_equals_the_loop(mask):
    """The paper's supplement: p(class) = sum over its shots of exp(γ cos) / sum over all shots of it."""

    def naive(shots, queries):
        rows = []
        for q in queries:
            weights = [[math.exp(cosine(q, shot) / 0.3) for shot in class_shots] for class_shots in shots]
            total = sum(sum(class_weights) for class_weights in weights)
            rows.append([math.log(sum(class_weights) / total) for class_weights in weights])
        return rows

    check(MatchingHead(DIM, temperature=0.3), naive, mask)


def test_matching_probabilities_sum_to_one_and_survive_a_small_temperature():
    support, query = inputs()
    logits = MatchingHead(DIM, temperature=1e-4)(support, query)
    torch.testing.assert_close(logits.exp().sum(-1), torch.ones(TASKS, QUERIES, dtype=torch.float64))
    assert logits.isfinite().all()


@with_and_without_mask
def test_matching_as_published_equals_the_authors_arithmetic(mask):
    """Normalised support, raw query, similarities times the one-hot labels, over the temperature."""

    def naive(shots, queries):
        support = np.concatenate([s / np.linalg.norm(s, axis=1, keepdims=True) for s in shots])
        one_hot = np.concatenate([np.eye(WAY)[[n] * len(s)] for n, s in enumerate(shots)])
        return queries @ support.T @ one_hot / 16.0

    check(MatchingHead(DIM, temperature=16.0, as_published=True), naive, mask)


@with_and_without_mask
@pytest.mark.parametrize("transform", ["none", "l2n", "cl2n"])
def test_simple_shot_equals_the_loop(transform, mask):
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
    check(head, naive, mask)


def test_simple_shot_without_its_mean_says_what_to_do():
    head, (support, query) = SimpleShotHead(DIM, transform="cl2n").double(), inputs()
    with pytest.raises(UserError, match=r"not set; call head\.fit"):
        head(support, query)
    loaded = SimpleShotHead(DIM, transform="cl2n").double()
    loaded.load_state_dict(head.state_dict())
    with pytest.raises(UserError, match=r"not set; call head\.fit"):
        loaded(support, query)


@with_and_without_mask
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_semi_prototype_equals_the_loop(steps, mask):
    def naive(shots, queries):
        centres = [class_shots.mean(axis=0) for class_shots in shots]
        for _ in range(steps):
            shares = []
            for q in queries:
                weights = np.exp([-distance(q, centre) / 2.5 for centre in centres])
                shares.append(weights / weights.sum())
            refined = []
            for n, class_shots in enumerate(shots):
                total, count = np.zeros(DIM), 0.0
                for shot in class_shots:
                    total, count = total + shot, count + 1
                for q, share in zip(queries, shares, strict=True):
                    total, count = total + share[n] * q, count + share[n]
                refined.append(total / count)
            centres = refined
        return [[-distance(q, centre) / 2.5 for centre in centres] for q in queries]

    check(SemiPrototypeHead(DIM, temperature=2.5, steps=steps), naive, mask)
