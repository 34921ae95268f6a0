"""The training loop of every stage: steps, validation, the best weights, checkpoints.

A step's randomness (task or batch, augmentation, dropout) comes from the seed and the step's number alone.
So the state of a run is its weights, its optimiser and a few counters, and a run that was killed at any
moment ends with the same weights, to the bit, as one that was never stopped.

Several processes share the tasks or images of every step. Their gradients are averaged before the weights
change, so that their states are always the same, and the first process alone writes them down.
"""

import time
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from fewset.compute import distributed
from fewset.core.errors import UserError
from fewset.core.progress import progress
from fewset.core.randomness import mix
from fewset.models.task_model import TaskModel, device_of
from fewset.tasks.scores import Score
from fewset.training.checkpoint import CHECKPOINT, TrainingFiles
from fewset.training.optimiser import OptimiserConfig, rate_factor, set_rate
from fewset.training.seeding import seeded

CHECKPOINT_SECONDS = 30.0  # between two checkpoints within an epoch; never changes a result


class Step(NamedTuple):
    loss: Tensor
    accuracy: Tensor


class PerStep(NamedTuple):
    """How many tasks or images a step has, and the key of the recipe that says so."""

    key: str
    total: int

    def share(self) -> tuple[int, int]:
        """The first and last (excluded) of them that are this process's."""
        return distributed.shard(self.total, chunk=1)


@runtime_checkable
class Stage(Protocol):
    """What the loop asks of a stage of training."""

    title: str
    optimiser: torch.optim.Optimizer
    optimiser_config: OptimiserConfig
    epochs: int
    steps_per_epoch: int
    seed: int

    @property
    def model(self) -> TaskModel:
        """What is validated and kept."""

    @property
    def module(self) -> torch.nn.Module:
        """All that is trained: the model, and what only training needs."""

    @property
    def per_step(self) -> PerStep:
        """What the processes share out in a step."""

    def step(self, number: int) -> Step:
        """The loss and accuracy of this process's share of a step."""

    def validate(self) -> Score: ...


def fit(stage: Stage, run: TrainingFiles) -> None:
    """Train to the end, from the last checkpoint if there is one; leaves the best weights in the model."""
    kept = distributed.on_main_process(run.load_checkpoint)
    state = _new_state() if kept is None else kept
    total = stage.epochs * stage.steps_per_epoch
    if kept is not None:
        _restore(stage, state, total, run)
        run.log(f"resumed at step {state['step']}")
    distributed.broadcast_(stage.module.state_dict().values())
    began, saved = time.monotonic() - state["seconds"], time.monotonic()

    def save() -> None:
        state["module"] = stage.module.state_dict()
        state["optimiser"] = stage.optimiser.state_dict()
        state["seconds"] = time.monotonic() - began
        run.save_checkpoint(state)

    with progress(stage.title, total, done=state["step"]) as advance:
        while state["step"] < total:
            number = state["step"]
            epoch, within = divmod(number, stage.steps_per_epoch)
            set_rate(
                stage.optimiser,
                rate_factor(stage.optimiser_config, number / stage.steps_per_epoch, stage.epochs),
            )
            loss, accuracy = train_step(stage, number)
            if not isfinite(loss):
                raise _diverged(stage, run, number, f"its loss is {loss}")
            state["step"] += 1
            state["loss"] += loss
            state["accuracy"] += accuracy
            mean_loss, mean_accuracy = state["loss"] / (within + 1), state["accuracy"] / (within + 1)
            note = (
                f"epoch {epoch + 1}/{stage.epochs} loss {mean_loss:.3f} accuracy {100 * mean_accuracy:.1f} %"
            )
            advance(1, note=note + (f" best {100 * state['best']:.2f} %" if epoch else ""))
            if within + 1 == stage.steps_per_epoch:
                if not _finite(stage.module):
                    raise _diverged(stage, run, number, "its weights are no longer finite")
                _end_epoch(stage, run, state, epoch + 1, time.monotonic() - began)
                save()
                run.write_metrics(state["metrics"])
                saved = time.monotonic()
            elif time.monotonic() - saved > CHECKPOINT_SECONDS and _finite(stage.module):
                save()
                saved = time.monotonic()
    run.write_metrics(state["metrics"])
    if "best_model" in state:
        stage.model.load_state_dict(state["best_model"])


def _new_state() -> dict[str, Any]:
    return {"step": 0, "loss": 0.0, "accuracy": 0.0, "best": -1.0, "seconds": 0.0, "metrics": []}


def _restore(stage: Stage, state: dict[str, Any], total: int, run: TrainingFiles) -> None:
    """Go on from a checkpoint; one that was written by another training, or by hand, is refused."""
    groups = [_types(group) for group in stage.optimiser.param_groups]
    try:
        for key, value in _new_state().items():
            if not isinstance(state[key], type(value)):
                raise TypeError(
                    f"{key!r} is a {type(state[key]).__name__}, expected a {type(value).__name__}"
                )
        if not 0 <= state["step"] <= total or not all(isinstance(row, dict) for row in state["metrics"]):
            raise ValueError(f"it is at step {state['step']} of {total}")
        stage.module.load_state_dict(state["module"])
        stage.optimiser.load_state_dict(state["optimiser"])
        moments = stage.optimiser.state.items()
        fitting = all(_fits(value, weight) for weight, kept in moments for value in kept.values())
        if not fitting or [_types(group) for group in stage.optimiser.param_groups] != groups:
            raise ValueError("the state of its optimiser has another shape")
        if "best_model" in state and _shapes(state["best_model"]) != _shapes(stage.model.state_dict()):
            raise ValueError("its best weights are those of another model")
        if not _finite(stage.module):
            raise ValueError("its weights are not finite")
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        problem = " ".join(str(error).split())[:200]
        raise UserError(
            f"{run.path / CHECKPOINT} is no checkpoint of this training ({problem}); start anew with --force"
        ) from None


def _types(group: dict[str, Any]) -> dict[str, type]:
    return {key: type(value) for key, value in group.items()}


def _shapes(weights: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: value.shape for name, value in weights.items()}


def _fits(value: Any, weight: Tensor) -> bool:
    """Whether this may be kept for a weight: one number, or as many as the weight has."""
    return not isinstance(value, Tensor) or value.dim() == 0 or value.shape == weight.shape


def train_step(stage: Stage, number: int) -> tuple[float, float]:
    """One step of the optimiser, by all processes together; returns its loss and accuracy."""
    stage.module.train()
    # Dropout has no generator of its own.
    with seeded(mix(stage.seed, number, *rank_seed()), device_of(stage.module)):
        loss, accuracy = stage.step(number)
    stage.optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    averaged = [loss.detach(), accuracy.detach(), *_gradients_and_statistics(stage.module)]
    distributed.average_(averaged)
    stage.optimiser.step()
    return averaged[0].item(), averaged[1].item()


def rank_seed() -> tuple[int, ...]:
    """What to add to the parts of a seed so that no two processes draw the same numbers."""
    return (7, distributed.rank()) if distributed.rank() else ()


def check_divisible(per_step: PerStep) -> None:
    """All processes have as many tasks or images, so that their mean is the mean over the step."""
    processes = distributed.world_size()
    if per_step.total % processes:
        near = max(processes, per_step.total - per_step.total % processes)
        raise UserError(
            f"{per_step.key} is {per_step.total}, which cannot be divided among {processes} processes; start "
            f"another number of them, or change the recipe: --set {per_step.key}={near}"
        )


def _finite(module: torch.nn.Module) -> bool:
    return all(bool(parameter.isfinite().all()) for parameter in module.parameters())


def _diverged(stage: Stage, run: TrainingFiles, number: int, what: str) -> UserError:
    """Why training stops. All processes see the same loss and weights, so all stop, and none writes."""
    total = stage.epochs * stage.steps_per_epoch
    error = UserError(
        f"{stage.title} stopped at step {number + 1} of {total}: {what}; lower the rate (optimiser.lr is "
        f"{stage.optimiser_config.lr}) or look at the data (`fewset data verify`), and start anew with "
        "--force; the last checkpoint is from before"
    )
    run.log(str(error))
    return error


def _gradients_and_statistics(module: torch.nn.Module) -> Iterator[Tensor]:
    """The gradients, and the statistics of the BatchNorm layers in training mode."""
    for parameter in module.parameters():
        if parameter.grad is not None:
            yield parameter.grad
    for layer in module.modules():
        if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm) and layer.training:
            yield from filter(torch.is_tensor, (layer.running_mean, layer.running_var))


def _end_epoch(stage: Stage, run: TrainingFiles, state: dict[str, Any], epoch: int, seconds: float) -> None:
    """Validate, keep the weights if they are the best so far, and add a row to the metrics."""
    score = stage.validate()
    best = score.mean > state["best"]
    if best:
        state["best"] = score.mean
        state["best_model"] = {name: value.clone() for name, value in stage.model.state_dict().items()}
    row = {
        "epoch": epoch,
        "step": state["step"],
        "loss": state["loss"] / stage.steps_per_epoch,
        "accuracy": state["accuracy"] / stage.steps_per_epoch,
        "val_accuracy": score.mean,
        "val_ci95": score.ci95,
        "seconds": round(seconds, 2),
        "best": best,
    }
    state["metrics"].append(row)
    state["loss"] = state["accuracy"] = 0.0
    run.log(" ".join(f"{key} {value:.4g}" for key, value in row.items()))
