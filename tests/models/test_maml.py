"""MAML: the inner loop against hand-written ones, its gradient against finite differences, whole runs."""

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fewset.core.errors import UserError
from fewset.data.images.store import ImageSet
from fewset.evaluation.embedding import embed_images
from fewset.evaluation.scoring import evaluate
from fewset.experiments.build import build_model
from fewset.experiments.config import ModelConfig
from fewset.experiments.embed_set import embed_set
from fewset.experiments.recipes import parse_recipe
from fewset.experiments.score_run import evaluate_run
from fewset.experiments.train_run import execute
from fewset.experiments.weights import load, load_weights, save_weights
from fewset.models.backbones.conv4 import Conv4
from fewset.models.maml import MamlConfig, MamlModel, Parameters, descend
from fewset.tasks.spec import TaskSpec
from fewset.training import loop
from fewset.training.checkpoint import TrainingFiles

IN, HIDDEN, WAY, SHOT, QUERIES = 3, 5, 2, 7, 11  # of the tiny net
STEPS, RATE = 3, 0.4


@pytest.fixture
def tiny() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(IN, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, WAY)).double()


def tiny_task(seed: int = 1) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Items and labels of support and query."""
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(WAY * SHOT, IN, generator=generator, dtype=torch.double),
        torch.arange(WAY).repeat_interleave(SHOT),
        torch.randn(QUERIES, IN, generator=generator, dtype=torch.double),
        torch.randint(WAY, (QUERIES,), generator=generator),
    )


def called(network: nn.Module) -> Callable[[Parameters, Tensor], Tensor]:
    return lambda parameters, items: torch.func.functional_call(network, dict(parameters), (items,))


def meta_loss(network: nn.Module, parameters: Parameters, steps: int, second_order: bool) -> Tensor:
    support, labels, query, query_labels = tiny_task()
    adapted = descend(called(network), parameters, support, labels, steps, RATE, second_order)
    return F.cross_entropy(called(network)(adapted, query), query_labels)


def meta_gradient(network: nn.Module, second_order: bool) -> list[Tensor]:
    parameters = dict(network.named_parameters())
    loss = meta_loss(network, parameters, STEPS, second_order)
    return list(torch.autograd.grad(loss, tuple(parameters.values())))


def sgd_on_a_copy(network: nn.Module, items: Tensor, labels: Tensor, steps: int, lr: float) -> nn.Module:
    """The obviously right inner loop."""
    network = copy.deepcopy(network)
    optimiser = torch.optim.SGD(network.parameters(), lr=lr)
    for _ in range(steps):
        optimiser.zero_grad()
        F.cross_entropy(network(items), labels).backward()
        optimiser.step()
    return network


@pytest.mark.parametrize("second_order", [True, False])
def test_the_inner_loop_is_gradient_descent(tiny: nn.Module, second_order: bool) -> None:
    support, labels, _, _ = tiny_task()
    expected = dict(sgd_on_a_copy(tiny, support, labels, STEPS, RATE).named_parameters())
    start = dict(tiny.named_parameters())
    adapted = descend(called(tiny), start, support, labels, STEPS, RATE, second_order)
    assert adapted.keys() == expected.keys()
    for name, value in adapted.items():
        torch.testing.assert_close(value, expected[name])
        assert not torch.allclose(value, start[name])


def test_the_second_order_gradient_is_that_of_finite_differences(tiny: nn.Module) -> None:
    """Central differences of the query loss after adaptation, by every single initial weight."""
    gradients = meta_gradient(tiny, second_order=True)
    step = 1e-6
    for parameter, gradient in zip(tiny.parameters(), gradients, strict=True):
        numeric = torch.empty_like(parameter)
        for position in np.ndindex(*parameter.shape):
            losses = []
            for sign in (1, -1):
                moved = copy.deepcopy(tiny)
                target = dict(zip(tiny.parameters(), moved.parameters(), strict=True))[parameter]
                with torch.no_grad():
                    target[position] += sign * step
                support, labels, query, query_labels = tiny_task()
                adapted = sgd_on_a_copy(moved, support, labels, STEPS, RATE)
                losses.append(F.cross_entropy(adapted(query), query_labels).item())
            numeric[position] = (losses[0] - losses[1]) / (2 * step)
        torch.testing.assert_close(gradient, numeric.detach(), rtol=1e-6, atol=1e-8)


def test_the_first_order_gradient_is_that_at_the_adapted_weights(tiny: nn.Module) -> None:
    support, labels, query, query_labels = tiny_task()
    adapted = sgd_on_a_copy(tiny, support, labels, STEPS, RATE)
    expected = torch.autograd.grad(F.cross_entropy(adapted(query), query_labels), tuple(adapted.parameters()))
    first, second = meta_gradient(tiny, second_order=False), meta_gradient(tiny, second_order=True)
    for one, two, naive in zip(first, second, expected, strict=True):
        torch.testing.assert_close(one, naive)
        assert not torch.allclose(one, two, rtol=1e-2)


# The model: tasks of images

SIZE, DIM = 16, 7
T, N, K, M = 2, 3, 5, 11


def small_model(transductive: bool = False, **inner: object) -> MamlModel:
    """With statistics that are neither those of the images nor 0 and 1."""
    torch.manual_seed(3)
    backbone = Conv4(input_size=SIZE, dim=DIM)
    for name, value in backbone.named_buffers():
        if "running_mean" in name:
            value.uniform_(-0.1, 0.1)
        elif "running_var" in name:
            value.uniform_(0.1, 0.3)
    settings = {"steps": STEPS, "lr": 0.1, **inner}
    return MamlModel(backbone, MamlConfig(**settings), transductive).eval()


def image_tasks() -> tuple[Tensor, Tensor]:
    pixels = 3 * SIZE * SIZE
    generator = torch.Generator().manual_seed(5)
    return torch.randn(T, N, K, pixels, generator=generator), torch.randn(T, M, pixels, generator=generator)


@pytest.mark.parametrize("transductive", [False, True])
def test_logits_are_those_of_a_network_trained_on_the_support(transductive: bool) -> None:
    model = small_model(transductive)
    support, query = image_tasks()
    logits = model(support, query)
    assert logits.shape == (T, M, N)
    assert logits.std(dim=1).min() > 0.01  # the queries do differ
    for task in range(T):
        classifier = nn.Linear(DIM, N)
        nn.init.zeros_(classifier.weight)
        nn.init.zeros_(classifier.bias)
        network = nn.Sequential(copy.deepcopy(model.backbone), classifier).train(transductive)
        images = support[task].reshape(N * K, 3, SIZE, SIZE)
        network = sgd_on_a_copy(network, images, torch.arange(N).repeat_interleave(K), STEPS, 0.1)
        expected = network(query[task].reshape(M, 3, SIZE, SIZE))
        torch.testing.assert_close(logits[task], expected, rtol=1e-4, atol=1e-5)


def test_bytes_are_normalised_with_the_backbone_s_mean_and_deviation() -> None:
    model = small_model()
    generator = torch.Generator().manual_seed(7)
    images = torch.randint(0, 256, (N * K + M, 3, SIZE, SIZE), dtype=torch.uint8, generator=generator)
    tables = [model.items_of(images), model.items_of(model.prepare(images))]
    assert tables[0].dtype == torch.uint8
    first, second = (
        model(table[: N * K].view(1, N, K, -1), table[N * K :].view(1, M, -1)) for table in tables
    )
    torch.testing.assert_close(first, second)


def test_one_task_never_influences_another() -> None:
    model = small_model()
    support, query = image_tasks()
    alone = torch.cat([model(support[task : task + 1], query[task : task + 1]) for task in range(T)])
    torch.testing.assert_close(model(support, query), alone, rtol=0, atol=0)


def test_queries_inform_each_other_in_a_transductive_model_only() -> None:
    support, query = image_tasks()
    for transductive in (False, True):
        model = small_model(transductive)
        same = torch.allclose(model(support, query)[:, :2], model(support, query[:, :2]), atol=1e-5)
        assert same is not transductive


def test_permuting_the_classes_permutes_the_logits() -> None:
    model = small_model()
    support, query = image_tasks()
    order = torch.tensor([2, 0, 1])
    torch.testing.assert_close(
        model(support[:, order], query), model(support, query)[..., order], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("transductive", [False, True])
def test_neither_training_nor_evaluation_touches_the_buffers_or_leaves_the_weights_changed(
    transductive: bool,
) -> None:
    model = small_model(transductive)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    support, query = image_tasks()
    with torch.inference_mode():
        scored = model.eval()(support.clone(), query.clone())
    learning = model.train()(support, query)
    torch.testing.assert_close(scored.clone(), learning, rtol=0, atol=0)
    assert not scored.requires_grad
    learning.sum().backward()
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_what_maml_cannot_take_is_rejected() -> None:
    model = small_model()
    support, query = image_tasks()
    with pytest.raises(UserError, match="neither unlabelled items nor shots that differ"):
        model(support, query, context=query)
    with pytest.raises(UserError, match=r"5 and -1\.0"):
        MamlConfig(lr=-1.0)


# Runs

RECIPE = {
    "name": "maml",
    "data": {"set": "tiny"},
    "model": {
        "backbone_options": {"input_size": SIZE, "dim": DIM},
        "maml": {"steps": 2, "lr": 0.05},
    },
    "train": {
        "way": 3, "shot": 2, "query": 3, "epochs": 2, "tasks_per_epoch": 4, "tasks_per_step": 2,
        "validation_tasks": 5, "validation_way": 3, "validation_query": 3,
    },
    "evaluate": {"way": 3, "shot": 2, "query": 3, "tasks": 13},
}  # fmt: skip


def test_a_stop_at_any_step_changes_nothing(
    tiny_set: ImageSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = parse_recipe(RECIPE)
    result = execute(recipe, "train", tmp_path / "whole")
    assert (result.method, result.before, result.examples) == ("maml", None, None)
    save = TrainingFiles.save_checkpoint

    def save_and_stop(self: TrainingFiles, state: dict) -> None:
        save(self, state)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
        patched.setattr(TrainingFiles, "save_checkpoint", save_and_stop)
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                execute(recipe, "train", tmp_path / "stopped", resume=True)
    execute(recipe, "train", tmp_path / "stopped", resume=True)
    for name in ("model.safetensors", "per_task.npy"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "stopped" / name).read_bytes()

    with pytest.raises(UserError, match="the setting transductive works on embeddings"):
        evaluate_run(tmp_path / "whole", setting="transductive")
    with pytest.raises(UserError, match="fewset embed works on embeddings"):
        embed_set(tmp_path / "whole", tmp_path / "table.npz")

    model = load(tmp_path / "whole")
    assert isinstance(model, MamlModel)
    selection = tiny_set.select("test")
    table = embed_images(model, tiny_set.images, selection.rows)
    score = evaluate(model, table, selection.labels, TaskSpec(way=3, shot=2, query=3, tasks=13), chunk=5)
    np.testing.assert_array_equal(score.per_task, np.load(tmp_path / "whole" / "per_task.npy"))
    execute(
        parse_recipe({**RECIPE, "train": {**RECIPE["train"], "init": "whole"}}), "train", tmp_path / "again"
    )


def test_a_weights_file_describes_the_inner_loop(tmp_path: Path) -> None:
    config = ModelConfig(
        backbone_options={"input_size": SIZE, "dim": DIM},
        transductive=True,
        maml=MamlConfig(steps=3, lr=0.2, second_order=False),
    )
    model = build_model(config, seed=3).eval()
    save_weights(model, config, tmp_path / "maml.safetensors")
    loaded, again = load_weights(tmp_path / "maml.safetensors")
    assert again == config
    support, query = image_tasks()
    torch.testing.assert_close(loaded(support, query), model(support, query), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": {"maml": {}, "adapter": "attention", "head": "matching"}}, "model.adapter, model.head"),
        ({"model": {"maml": {"step": 3}}}, "Did you mean 'model.maml.steps'"),
        (
            {"model": {"maml": {}}, "train": {"balance": 0.1, "freeze_batchnorm": True}},
            "train.freeze_batchnorm",
        ),
        ({"model": {"maml": {}}, "train": None, "pretrain": {}}, r"a \[train\] table"),
    ],
)
def test_a_recipe_with_what_maml_does_not_have_is_rejected(change: dict, message: str) -> None:
    table = {"name": "maml", "train": {}, **change}
    with pytest.raises(UserError, match=message):
        parse_recipe({key: value for key, value in table.items() if value is not None})
