"""What every head must do. A newly registered one is tested here without being named."""

import inspect
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fewset.core.errors import UserError
from fewset.models.heads import HEADS
from fewset.models.method_info import method_info
from tests.helpers.heads import DIM, PLACES, QUERIES, SHOT, TASKS, WAY, inputs, normal, uneven_mask

Variant = tuple[str, dict[str, Any]]
VARIANTS: list[Variant] = [(name, {}) for name in HEADS] + [
    ("prototype", {"similarity": "cosine"}),
    ("prototype", {"similarity": "one-sided-cosine"}),
    ("matching", {"as_published": True}),
    ("semi_prototype", {"similarity": "cosine", "steps": 3}),
    ("laplacian_shot", {"rectify": False}),
    ("tim", {"solver": "gradient", "steps": 20}),
]


def parametrize(variants: list[Variant]) -> pytest.MarkDecorator:
    ids = [
        "-".join([name, *(f"{key}={value}" for key, value in options.items())]) for name, options in variants
    ]
    return pytest.mark.parametrize(("name", "options"), variants, ids=ids)


def build(name: str, options: dict[str, Any], dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(11)
    return HEADS[name](DIM, **options).to(dtype).eval()


def places_of(name: str) -> tuple[int, ...]:
    """Of an item that the head takes: those of a map, or none."""
    return PLACES if method_info(HEADS[name]).takes == "maps" else ()


def inputs_of(name: str, *sizes: int) -> tuple[Tensor, Tensor]:
    return inputs(*sizes, places=places_of(name))


every_head = parametrize(VARIANTS)
every_head_on_embeddings = parametrize(
    [(name, options) for name, options in VARIANTS if method_info(HEADS[name]).takes == "embeddings"]
)
every_head_of_use_untrained = parametrize(
    [(name, options) for name, options in VARIANTS if not method_info(HEADS[name]).trained]
)
every_equivariant_head = parametrize(
    [(name, options) for name, options in VARIANTS if getattr(HEADS[name], "equivariant", True)]
)
every_head_with_a_temperature = parametrize(
    [
        (name, options)
        for name, options in VARIANTS
        if "temperature" in inspect.signature(HEADS[name]).parameters
    ]
)


@every_head
@pytest.mark.parametrize(
    ("way", "shot", "queries"), [(WAY, SHOT, QUERIES), (1, 1, 1), (2, 1, 3), (7, 2, 1), (3, 11, 2)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_way_shot_and_type_and_the_inputs_stay(name, options, way, shot, queries, dtype):
    support, query = (tensor.to(dtype) for tensor in inputs_of(name, way, shot, queries))
    before = support.clone(), query.clone()
    logits = build(name, options, dtype)(support, query)
    assert logits.shape == (TASKS, queries, way)
    assert logits.dtype == dtype
    assert logits.isfinite().all()
    torch.testing.assert_close((support, query), before, rtol=0, atol=0)


@every_equivariant_head
def test_permuting_the_classes_permutes_the_logits(name, options):
    head, (support, query) = build(name, options), inputs_of(name)
    order = torch.tensor([4, 2, 0, 1, 3])
    torch.testing.assert_close(head(support[:, order], query), head(support, query)[:, :, order])


@every_head
def test_permuting_the_shots_changes_nothing(name, options):
    head, (support, query) = build(name, options), inputs_of(name)
    torch.testing.assert_close(head(support[:, :, [2, 0, 1]], query), head(support, query))


@every_head
def test_permuting_the_queries_permutes_the_logits(name, options):
    head, (support, query) = build(name, options), inputs_of(name)
    torch.testing.assert_close(head(support, query.flip(1)), head(support, query).flip(1))


@every_head
def test_a_masked_shot_is_no_shot(name, options):
    """What lies under the mask does not matter; without its last shot a class has one shot less."""
    head, (support, query) = build(name, options), inputs_of(name)
    mask = torch.ones(TASKS, WAY, SHOT, dtype=torch.bool)
    torch.testing.assert_close(head(support, query, mask), head(support, query))
    mask[:, :, -1] = False
    fewer = head(support[:, :, :-1], query)
    support[:, :, -1] = 1000.0
    torch.testing.assert_close(head(support, query, mask), fewer)


@every_head
def test_shots_may_differ_by_class(name, options):
    head, (support, query), mask = build(name, options), inputs_of(name), uneven_mask()
    expected = head(support, query, mask)
    assert not torch.allclose(head(support, query), expected)
    support[~mask] = -7.0
    torch.testing.assert_close(head(support, query, mask), expected)


@every_head
def test_tasks_never_influence_each_other(name, options):
    head, (support, query) = build(name, options), inputs_of(name)
    together = head(support, query)
    torch.testing.assert_close(head(support[:1], query[:1]), together[:1])
    support[1], query[1] = torch.nan, torch.nan
    torch.testing.assert_close(head(support, query)[0], together[0])


@every_head
def test_queries_influence_each_other_in_a_transductive_head_alone(name, options):
    head, (support, query) = build(name, options), inputs_of(name)
    alone = head(support, query)[:, :3]
    query[:, 3:] += 1.5
    others_matter = not torch.allclose(head(support, query)[:, :3], alone)
    assert others_matter == (method_info(head).kind == "transductive")


@pytest.mark.parametrize("name", HEADS)
def test_says_what_it_is_and_needs(name):
    """In words; and where it says that it looks at single shots, their mean does not do."""
    said, (support, query) = method_info(HEADS[name]), inputs_of(name)
    assert said.summary
    if not HEADS[name].__module__.startswith("fewset."):
        return  # a plugin's may say no more
    assert said.paper
    heads = [build(member, options) for member, options in VARIANTS if member == name]
    assert any(list(head.parameters()) for head in heads) or not said.trained
    means = support.mean(dim=2, keepdim=True)
    seen = [not torch.allclose(head(means, query), head(support, query)) for head in heads]
    assert any(seen) == said.every_shot


@every_head
def test_evaluating_twice_is_identical_and_leaves_no_trace(name, options):
    head, (support, query) = build(name, options), inputs_of(name)
    state = {key: value.clone() for key, value in head.state_dict().items()}
    torch.manual_seed(1)
    first = head(support, query)
    torch.manual_seed(2)
    assert torch.equal(head(support, query), first)
    assert all(torch.equal(value, state[key]) for key, value in head.state_dict().items())


@every_head
def test_gradients_reach_support_and_queries_and_every_parameter(name, options):
    head, (support, query) = build(name, options), inputs_of(name)
    head(support.requires_grad_(), query.requires_grad_()).log_softmax(-1)[..., 0].sum().backward()
    for key, tensor in [("support", support), ("query", query), *head.named_parameters()]:
        assert tensor.grad is not None, key
        assert tensor.grad.isfinite().all(), key
        assert tensor.grad.any(), key


@every_head_of_use_untrained
def test_separable_data_is_classified_rightly(name, options):
    """Class n lies around its own axis, every class as far from the training mean as any other."""
    places = places_of(name)
    centres = 3 * torch.eye(WAY, DIM, dtype=torch.float64).view(WAY, *(1 for _ in places), DIM)
    support = centres[:, None] + 0.1 * normal(TASKS, WAY, SHOT, *places, DIM, seed=5)
    query = centres + 0.1 * normal(TASKS, WAY, *places, DIM, seed=6)
    assert build(name, options)(support, query).argmax(-1).tolist() == [list(range(WAY))] * TASKS


@every_head
def test_state_dict_holds_all_that_matters(name, options):
    head, (support, query) = build(name, options), inputs_of(name)
    torch.manual_seed(13)
    other = HEADS[name](DIM, **options).double().eval()
    other.load_state_dict(head.state_dict())
    assert torch.equal(other(support, query), head(support, query))


@every_head_on_embeddings
def test_has_a_similarity_for_the_contrastive_term(name, options):
    """Items to each of which every query is compared, whatever their number."""
    similarity = build(name, options).similarity
    scores: Tensor = similarity(normal(TASKS, QUERIES, DIM, seed=1), normal(TASKS, 13, DIM, seed=2))
    assert scores.shape == (TASKS, QUERIES, 13)
    assert scores.isfinite().all()


@every_head_with_a_temperature
def test_temperature_flattens_the_probabilities(name, options):
    support, query = inputs_of(name)
    certainty = []
    for temperature in (0.5, 5.0, 1e6):
        head = build(name, {**options, "temperature": temperature})
        assert head.temperature == temperature
        certainty.append(head(support, query).softmax(-1).amax(-1).mean().item())
    assert certainty[0] > certainty[1] > certainty[2]
    assert certainty[2] == pytest.approx(1 / WAY, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("bd_cspn", "scale", 0.0),
        ("bd_cspn", "confident", -1),
        ("cosine_layer", "rate", 0.0),
        ("dn4", "neighbours", 0),
        ("label_propagation", "spread", 1.0),
        ("laplacian_shot", "steps", -1),
        ("lda", "shrinkage", 1.1),
        ("leo", "latent", 0),
        ("leo", "steps", -1),
        ("logistic", "steps", 0),
        ("pmn", "reads", 0),
        ("prototype", "similarity", "cosin"),
        ("prototype", "temperature", 0.0),
        ("prototype", "temperature", math.nan),
        ("pt_map", "power", 0.0),
        ("relation", "hidden", 0),
        ("ridge", "strength", 0.0),
        ("svm", "penalty", 0.0),
        ("team", "strength", -1.0),
        ("tim", "label_weight", -1.0),
        ("tim", "solver", "gradien"),
    ],
)
def test_an_option_out_of_range_is_rejected_by_its_name(name, option, value):
    with pytest.raises(UserError, match=option):
        HEADS[name](DIM, **{option: value})
