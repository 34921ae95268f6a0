"""The loop itself, on a stage that says what each step's loss is."""

import os
import pickle
import warnings
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fewset.core.errors import UserError
from fewset.experiments.config import Recipe
from fewset.experiments.train_run import execute
from fewset.tasks.scores import Score
from fewset.training import loop
from fewset.training.checkpoint import CHECKPOINT, TrainingFiles
from fewset.training.loop import PerStep, Step, fit
from fewset.training.optimiser import OptimiserConfig, build_optimiser
from tests.helpers.tiny_recipes import PRETRAIN, recipe

EPOCHS, STEPS = 3, 5


class Scripted:
    """A stage of one weight w, whose loss is w times the number of its step in a script, or 1."""

    title, seed, epochs, steps_per_epoch = "scripted training", 0, EPOCHS, STEPS
    per_step = PerStep("tasks", 1)

    def __init__(self, script: dict[int, float]) -> None:
        self.script = script
        self.model: Any = nn.Linear(1, 1, bias=False)
        nn.init.ones_(self.model.weight)
        self.module = self.model
        self.optimiser_config = OptimiserConfig(kind="sgd", lr=0.007, momentum=0.9, schedule="constant")
        self.optimiser = build_optimiser(self.optimiser_config, self.model.parameters(), ())
        self.steps = 0

    def step(self, number: int) -> Step:
        self.steps += 1
        return Step(self.script.get(number, 1.0) * self.model.weight.sum(), torch.tensor(0.5))

    def validate(self) -> Score:
        return Score.of(np.full(3, 0.5))


def files(directory: Path) -> dict[str, bytes]:
    return {str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob("*.*")}


@pytest.mark.parametrize("seconds", [0.0, 1e9], ids=["a checkpoint each step", "a checkpoint each epoch"])
@pytest.mark.parametrize("loss", [nan, inf, -inf])
def test_a_loss_that_is_not_finite_stops_the_training(
    loss: float, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", seconds)
    stopped, whole = Scripted({STEPS + 2: loss}), Scripted({})
    with pytest.raises(UserError, match=rf"step {STEPS + 3} .*loss is {loss}; lower .*0\.007.*the data"):
        fit(stopped, TrainingFiles(tmp_path))
    assert stopped.steps == STEPS + 3
    assert f"loss is {loss}" in (tmp_path / "log.txt").read_text()
    state = TrainingFiles(tmp_path).load_checkpoint()
    assert state is not None
    assert state["step"] == (STEPS if seconds else STEPS + 2)
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 1
    assert set(files(tmp_path)) == {
        str(CHECKPOINT), f"{CHECKPOINT}.sha256", "metrics.jsonl", "log.txt"
    }  # fmt: skip
    fit(whole, TrainingFiles(tmp_path))  # the checkpoint is good: one with the same weights goes on from it
    assert whole.steps == (EPOCHS * STEPS) - state["step"]
    assert torch.isfinite(whole.model.weight).all()


@pytest.mark.parametrize("seconds", [0.0, 1e9])
@pytest.mark.parametrize("last", [STEPS - 1, EPOCHS * STEPS - 1])
def test_weights_that_are_not_finite_are_never_kept(
    last: int, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of which the loss is finite, and the gradient is not: at most the next step shows it."""
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", seconds)
    stage = Scripted({})
    step = stage.step

    def with_bad_gradient(number: int) -> Step:
        loss, accuracy = step(number)
        if number == last:
            loss.register_hook(lambda gradient: gradient * nan)
        return Step(loss, accuracy)

    monkeypatch.setattr(stage, "step", with_bad_gradient)
    with pytest.raises(UserError, match=f"step {last + 1} .*weights"):
        fit(stage, TrainingFiles(tmp_path))
    state = TrainingFiles(tmp_path).load_checkpoint()
    if state is not None:
        assert state["step"] <= last
        assert torch.isfinite(state["module"]["weight"]).all()


def test_a_log_that_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log.txt")
    with pytest.raises(OSError, match=r"log\.txt is not a regular file"):
        TrainingFiles(tmp_path).log("a line")


@pytest.mark.usefixtures("tiny_set")
def test_a_run_that_diverges_is_unfinished_and_starts_again_by_force(tmp_path: Path) -> None:
    def plan(rate: float) -> Recipe:
        return recipe(PRETRAIN, epochs=2, augment=[], optimiser={"kind": "sgd", "lr": rate})

    run = tmp_path / "pre"
    with pytest.raises(UserError, match=r"loss is (nan|inf)"):
        execute(plan(1e20), "pretrain", run)
    assert not (run / "model.safetensors").exists()
    assert not (run / "result.json").exists()
    with pytest.raises(UserError, match="the recipe differs"):
        execute(plan(1e-3), "pretrain", run, resume=True)
    assert execute(plan(1e-3), "pretrain", run, force=True).tasks == 23


@pytest.mark.usefixtures("tiny_set")
@pytest.mark.parametrize("kind", ["adam", "sgd"])
def test_the_largest_rates_end_with_an_error_of_one_line(kind: str, tmp_path: Path) -> None:
    """PyTorch itself raises for a rate that float32 does not hold; Adam multiplies the rate at first."""
    optimiser = {"kind": kind, "lr": 1e30, "other_lr_scale": 1.0, "weight_decay": 1e30}
    with pytest.raises(UserError, match="stopped at step") as error:
        execute(recipe(PRETRAIN, optimiser=optimiser), "pretrain", tmp_path / "run")
    assert "\n" not in str(error.value)


def test_a_flipped_bit_in_a_checkpoint_is_noticed(tmp_path: Path) -> None:
    run = TrainingFiles(tmp_path)
    run.save_checkpoint({"step": 3, "weight": torch.arange(1000.0)})
    whole = (tmp_path / CHECKPOINT).read_bytes()
    for place in range(0, len(whole), 997):
        damaged = bytearray(whole)
        damaged[place] ^= 4
        (tmp_path / CHECKPOINT).write_bytes(damaged)
        with pytest.raises(UserError, match=r"last\.pt is damaged: its sha256"):
            run.load_checkpoint()
    (tmp_path / CHECKPOINT).write_bytes(whole)
    state = run.load_checkpoint()
    assert state is not None
    assert torch.equal(state["weight"], torch.arange(1000.0))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"zeros" + bytes(1000), pickle.dumps([Path("x")])])
def test_another_file_without_a_digest_is_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT).parent.mkdir()
    (tmp_path / CHECKPOINT).write_bytes(content)
    with (
        warnings.catch_warnings(action="ignore"),
        pytest.raises(UserError, match="not a checkpoint") as error,
    ):
        TrainingFiles(tmp_path).load_checkpoint()
    assert "\n" not in str(error.value)
    assert "--force" in str(error.value)
