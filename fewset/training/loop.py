"""The training loop of every stage: steps, validation, the best weights, checkpoints.

A step's randomness (task or batch, augmentation, dropout) comes from the seed and the step's number alone.
So the state of a run is its weights, its optimiser and a few counters. A run that was killed at any moment
and resumed ends with the same weights, to the bit, as one that was never stopped.

Several processes share the tasks or images of every step. Their gradients are averaged before the weights
change, so all processes have the same state, and the main process writes it.
"""

import time
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
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
    """The number of tasks or images in a step, and the key of the recipe that sets it."""

    key: str
    total: int

    def share(self) -> tuple[int, int]:
        """The first and last (excluded) of them for this process."""
        return distributed.shard(self.total, chunk=1)


@runtime_checkable
class Stage(Protocol):
    """A stage of training, as the loop uses it."""

    title: str
    optimiser: torch.optim.Optimizer
    optimiser_config: OptimiserConfig
    epochs: int
    steps_per_epoch: int
    seed: int

    @property
    def model(self) -> TaskModel:
        """The model that is validated and saved."""

    @property
    def module(self) -> torch.nn.Module:
        """All trained parts: the model, and the parts that only training needs."""

    @property
    def per_step(self) -> PerStep:
        """The tasks or images that the processes share in a step."""

    def step(self, number: int) -> Step:
        """The loss and accuracy of this process's share of a step."""

    def validate(self) -> Score: ...


def fit(stage: Stage, run: TrainingFiles) -> None:
    """Train to the end, from the last checkpoint if there is one; the model then has the best weights."""
    state = distributed.on_main_process(run.load_checkpoint)
    total = stage.epochs * stage.steps_per_epoch
    if state is None:
        state = {"step": 0, "loss": 0.0, "accuracy": 0.0, "best": -1.0, "seconds": 0.0, "metrics": []}
    else:
        _restore(stage, state, run.path / CHECKPOINT)
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
            factor = rate_factor(stage.optimiser_config, number / stage.steps_per_epoch, stage.epochs)
            set_rate(stage.optimiser, factor)
            loss, accuracy = train_step(stage, number)
            if not isfinite(loss):
                raise _diverged(stage, run, number, f"its loss is {loss}")
            state["step"] += 1
            state["loss"] += loss
            state["accuracy"] += accuracy
            mean_loss, percent = state["loss"] / (within + 1), 100 * state["accuracy"] / (within + 1)
            best = f" best {100 * state['best']:.2f} %" if epoch else ""
            done = f"epoch {epoch + 1}/{stage.epochs}"
            advance(1, note=f"{done} loss {mean_loss:.3f} accuracy {percent:.1f} %{best}")
            if within + 1 == stage.steps_per_epoch:
                if not _finite(stage.module):
                    raise _diverged(stage, run, number, "its weights are not finite")
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


def _restore(stage: Stage, state: dict[str, Any], path: Path) -> None:
    """Load the weights and the optimiser of a checkpoint, which must be of the same training."""
    try:
        stage.module.load_state_dict(state["module"])
        stage.optimiser.load_state_dict(state["optimiser"])
    except (KeyError, RuntimeError, ValueError) as error:
        problem = " ".join(str(error).split())[:200]
        raise UserError(
            f"{path} is not a checkpoint of this training ({problem}); start again with --force"
        ) from None


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
    """Parts to add to a seed, so that each process draws other random values."""
    return (7, distributed.rank()) if distributed.rank() else ()


def check_divisible(per_step: PerStep) -> None:
    """Check that all processes get equally many tasks or images, so that the mean of their means is right."""
    processes = distributed.world_size()
    if per_step.total % processes:
        near = max(processes, per_step.total - per_step.total % processes)
        raise UserError(
            f"{per_step.key} is {per_step.total}, which cannot be divided among {processes} processes; use "
            f"another number of processes, or change the recipe: --set {per_step.key}={near}"
        )


def _finite(module: torch.nn.Module) -> bool:
    return all(bool(parameter.isfinite().all()) for parameter in module.parameters())


def _diverged(stage: Stage, run: TrainingFiles, number: int, what: str) -> UserError:
    """The error of a training that diverged. All processes see the same values, so all stop."""
    total = stage.epochs * stage.steps_per_epoch
    error = UserError(
        f"{stage.title} stopped at step {number + 1} of {total}: {what}; lower the rate (optimiser.lr is "
        f"{stage.optimiser_config.lr}) or check the data (`fewset data verify`), and start again with --force"
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
