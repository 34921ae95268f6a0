"""What every set-to-set function must do. A newly registered one is tested here without being named."""

import inspect
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fewset.core.errors import UserError
from fewset.models.adapters import ADAPTERS
from fewset.models.method_info import method_info

# Different numbers on every axis, prime but for the embedding size: a BiLSTM halves it.
SETS, SIZE, CONTEXT, DIM = 5, 7, 3, 22

VARIANTS: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in ADAPTERS] + [
    ("attention", {"heads": 2, "layers": 3}),
    ("deepsets", {"pool": "sum"}),
    ("deepsets", {"as_published": True}),
    ("gcn", {"graph": "similarity"}),
    ("gcn", {"as_published": True}),
    ("attention", {"residual": True}),
    *((name, {"norm": True}) for name in ("bilstm", "deepsets", "gcn")),
]


def zero_starts() -> list[tuple[str, dict[str, Any]]]:
    """Every adapter that has the option, as the identity at the start."""
    options = {name: inspect.signature(ADAPTERS[name]).parameters for name in ADAPTERS}
    return [
        (name, {"zero_start": True} | {key: key == "residual" for key in ("residual", "norm") if key in has})
        for name, has in options.items()
        if "zero_start" in has
    ]


ZERO_STARTS = [*zero_starts(), ("attention", {"zero_start": True, "residual": True, "heads": 2, "layers": 3})]


def parametrize(variants: list[tuple[str, dict[str, Any]]]) -> pytest.MarkDecorator:
    ids = [
        "-".join([name, *(f"{key}={value}" for key, value in options.items())]) for name, options in variants
    ]
    return pytest.mark.parametrize(("name", "options"), variants, ids=ids)


every_adapter = parametrize(VARIANTS)
every_equivariant_adapter = parametrize(
    [(name, options) for name, options in VARIANTS if getattr(ADAPTERS[name], "equivariant", True)]
)
with_and_without_context = pytest.mark.parametrize("use_context", [False, True], ids=["alone", "context"])


def build(name: str, options: dict[str, Any], dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(11)
    return ADAPTERS[name](DIM, **options).to(dtype).eval()


def inputs(
    size: int = SIZE, use_context: bool = True, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Items, context and labels: classes of unequal size, in no order."""
    generator = torch.Generator().manual_seed(size)
    items = torch.randn(SETS, size, DIM, generator=generator, dtype=dtype)
    context = torch.randn(SETS, CONTEXT, DIM, generator=generator, dtype=dtype) if use_context else None
    return items, context, torch.randint(3, (SETS, size), generator=generator)


def call(adapter: nn.Module, items: Tensor, context: Tensor | None, labels: Tensor) -> Tensor:
    if getattr(adapter, "uses_labels", False):
        return adapter(items, context, labels=labels)
    return adapter(items, context)


def count_parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def changed(tensor: Tensor | None, function) -> Tensor | None:
    return None if tensor is None else function(tensor)


@every_adapter
@with_and_without_context
@pytest.mark.parametrize("size", [1, 2, SIZE])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_keeps_shape_and_type_and_inputs(name, options, use_context, size, dtype):
    adapter = build(name, options, dtype)
    items, context, labels = inputs(size, use_context, dtype)
    before = items.clone(), changed(context, torch.clone), labels.clone()
    adapted = call(adapter, items, context, labels)
    assert adapted.shape == items.shape
    assert adapted.dtype == dtype
    assert adapted.isfinite().all()
    torch.testing.assert_close((items, context, labels), before, rtol=0, atol=0)


@every_adapter
@with_and_without_context
def test_labels_are_optional(name, options, use_context):
    items, context, _ = inputs(use_context=use_context)
    assert build(name, options)(items, context).shape == items.shape


@every_equivariant_adapter
@with_and_without_context
def test_permuting_the_set_permutes_the_result(name, options, use_context):
    adapter = build(name, options)
    items, context, labels = inputs(use_context=use_context)
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    permuted = call(adapter, items[:, order], context, labels[:, order])
    torch.testing.assert_close(permuted, call(adapter, items, context, labels)[:, order])


@every_equivariant_adapter
def test_permuting_the_context_changes_nothing(name, options):
    adapter = build(name, options)
    items, context, labels = inputs()
    permuted = call(adapter, items, context[:, [2, 0, 1]], labels)
    torch.testing.assert_close(permuted, call(adapter, items, context, labels))


@every_adapter
def test_an_empty_context_is_none(name, options):
    adapter = build(name, options)
    items, context, labels = inputs()
    torch.testing.assert_close(
        call(adapter, items, context[:, :0], labels), call(adapter, items, None, labels)
    )


@every_adapter
@with_and_without_context
def test_sets_never_influence_each_other(name, options, use_context):
    adapter = build(name, options)
    items, context, labels = inputs(use_context=use_context)
    expected = call(adapter, items, context, labels)[2]
    for poisoned in (items, context):
        if poisoned is not None:
            poisoned[[0, 1, 3, 4]] = torch.nan
    torch.testing.assert_close(call(adapter, items, context, labels)[2], expected)


@every_adapter
def test_evaluating_twice_is_identical(name, options):
    adapter = build(name, options)
    items, context, labels = inputs()
    torch.manual_seed(1)
    first = call(adapter, items, context, labels)
    torch.manual_seed(2)
    assert torch.equal(call(adapter, items, context, labels), first)


@every_adapter
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_gradients_reach_every_parameter_and_the_items(name, options, training):
    adapter = build(name, options).train(training)
    items, context, labels = inputs()
    adapted = call(adapter, items.requires_grad_(), context, labels)
    weight = torch.randn(adapted.shape, generator=torch.Generator().manual_seed(0), dtype=adapted.dtype)
    (adapted * weight).sum().backward()
    for key, tensor in [("items", items), *adapter.named_parameters()]:
        assert tensor.grad is not None, key
        assert tensor.grad.isfinite().all(), key
        assert tensor.grad.any(), key


def test_all_that_adapt_have_a_zero_start():
    assert {name for name, _ in ZERO_STARTS} == set(ADAPTERS) - {"identity", "norm"}


@parametrize(ZERO_STARTS)
@with_and_without_context
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_a_zero_start_is_the_identity(name, options, use_context, training):
    items, context, labels = inputs(use_context=use_context)
    adapter = build(name, options).train(training)
    assert torch.equal(call(adapter, items, context, labels), items)


@pytest.mark.parametrize("name", ["bilstm", "deepsets", "gcn"])
def test_a_norm_is_the_layer_norm_of_the_result(name):
    items, context, labels = inputs()
    plain, normed = build(name, {}), build(name, {"norm": True})
    normed.load_state_dict(plain.state_dict(), strict=False)
    torch.nn.init.normal_(normed.norm.weight)
    torch.nn.init.normal_(normed.norm.bias)
    rows = call(plain, items, context, labels)
    centred = rows - rows.mean(-1, keepdim=True)
    expected = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(
        call(normed, items, context, labels), expected * normed.norm.weight + normed.norm.bias
    )


@parametrize(ZERO_STARTS)
def test_two_steps_from_a_zero_start_reach_every_parameter(name, options):
    """The first step moves what is zero, the second all the rest."""
    adapter = build(name, options)
    before = {key: tensor.clone() for key, tensor in adapter.named_parameters()}
    items, context, labels = inputs()
    weight = torch.randn(items.shape, generator=torch.Generator().manual_seed(0), dtype=items.dtype)
    optimiser = torch.optim.SGD(adapter.parameters(), lr=0.1)
    for _ in range(2):
        optimiser.zero_grad()
        (call(adapter, items, context, labels) * weight).sum().backward()
        optimiser.step()
    unmoved = [key for key, tensor in adapter.named_parameters() if torch.equal(tensor, before[key])]
    assert not unmoved


@parametrize(ZERO_STARTS)
def test_a_zero_start_draws_what_it_keeps_as_without(name, options):
    """So two runs of a seed that differ in this option alone share all other weights."""
    started = build(name, options).state_dict()
    plain = build(name, {**options, "zero_start": False}).state_dict()
    kept = {key: (started[key] == plain[key]) | (started[key] == 0) for key in plain}
    assert all(same.all() for same in kept.values())


@every_adapter
def test_gradients_of_a_single_item_are_finite(name, options):
    adapter = build(name, options)
    items, _, labels = inputs(size=1)
    call(adapter, items.requires_grad_(), None, labels).sum().backward()
    assert items.grad.isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in adapter.parameters())


@every_adapter
def test_state_dict_holds_all_that_matters(name, options):
    adapter, items = build(name, options), inputs()
    other = build(name, options)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(13)))
    if count_parameters(adapter):
        assert not torch.equal(call(other, *items), call(adapter, *items))
    other.load_state_dict(adapter.state_dict())
    assert torch.equal(call(other, *items), call(adapter, *items))


@pytest.mark.parametrize(
    ("name", "at_64", "at_640"),
    [
        ("bilstm", 25_088, 2_462_720),
        ("deepsets", 82_560, 8_198_400),
        ("gcn", 33_088, 3_280_000),
        ("attention", 16_576, 1_640_320),
        ("itemwise", 16_576, 1_640_320),  # as FEAT's
        ("recall", 64 * (64 + 64 + 1) + 3, 640 * (640 + 64 + 1) + 3),
        ("identity", 0, 0),
    ],
)
def test_numbers_of_parameters_are_the_papers(name, at_64, at_640):
    assert [count_parameters(ADAPTERS[name](dim)) for dim in (64, 640)] == [at_64, at_640]


@every_adapter
def test_says_what_it_is_and_whether_it_learns(name: str, options: dict[str, Any]) -> None:
    said = method_info(ADAPTERS[name])
    assert said.summary
    if not ADAPTERS[name].__module__.startswith("fewset."):
        return  # a plugin's may say no more
    assert said.paper
    assert said.trained == (count_parameters(build(name, options)) > 0)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("attention", {"mean_start": -1.0}),
        ("attention", {"mean_start": 0.3, "zero_start": True}),
        ("attention", {"layers": 0}),
        ("bilstm", {"dim": 13}),
        ("deepsets", {"pool": "mean"}),
        ("deepsets", {"pool": "sum", "as_published": True}),
        ("gcn", {"zero_start": True}),
        ("gcn", {"graph": "label"}),
    ],
)
def test_options_that_mean_nothing_are_rejected(name, options):
    with pytest.raises(UserError, match=f"{next(iter(options))}|even embedding size"):
        ADAPTERS[name](**{"dim": DIM, **options})
