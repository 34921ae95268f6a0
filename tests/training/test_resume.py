"""A stop at any moment changes nothing."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fewset.core.errors import UserError
from fewset.experiments.recipes import recipe_text
from fewset.experiments.train_run import execute
from fewset.training import loop
from fewset.training.checkpoint import CHECKPOINT, TrainingFiles
from tests.helpers.tiny_recipes import (
    AVERAGED,
    FEATURES,
    FROZEN,
    GATED,
    JOINT,
    PARTLY,
    PRETRAIN,
    TRAIN,
    recipe,
)

pytestmark = pytest.mark.usefixtures("tiny_table")


@pytest.mark.parametrize(
    "table",
    [PRETRAIN, AVERAGED, TRAIN, FEATURES, FROZEN, PARTLY, GATED, JOINT],
    ids=["pretrain", "averaged", "train", "features", "frozen", "partly frozen", "gated", "joint"],
)
def test_a_stop_at_any_step_changes_nothing(table: dict, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after every single step, between the checkpoint and the rest, and resumed each time."""
    kind = "pretrain" if "pretrain" in table else "train"
    whole = execute(recipe(table), kind, runs / "whole")
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    save = TrainingFiles.save_checkpoint

    def save_and_stop(self: TrainingFiles, state: dict) -> None:
        save(self, state)
        raise KeyboardInterrupt

    stops = 0
    while True:
        monkeypatch.setattr(TrainingFiles, "save_checkpoint", save_and_stop)
        try:
            execute(recipe(table), kind, runs / "stopped", resume=True)
            break
        except KeyboardInterrupt:
            stops += 1
            torch.manual_seed(stops)  # whatever the process did in between
    assert stops >= 9
    for name in ("model.safetensors", whole.per_task, "recipe.toml"):
        assert (runs / "whole" / name).read_bytes() == (runs / "stopped" / name).read_bytes()
    once, stopped = (
        [
            {**json.loads(line), "seconds": 0}
            for line in (runs / name / "metrics.jsonl").read_text().splitlines()
        ]
        for name in ("whole", "stopped")
    )
    assert once == stopped


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.pop("module"),
        lambda state: state["module"].popitem(),
        lambda state: state["optimiser"].update(state={}, param_groups=[]),
    ],
)
def test_a_checkpoint_of_another_training_is_rejected(change: Callable[[dict], object], runs: Path) -> None:
    execute(recipe(PRETRAIN, epochs=1), "pretrain", runs / "run")
    run = TrainingFiles(runs / "run")
    state = run.load_checkpoint()
    assert state is not None
    change(state)
    run.save_checkpoint(state)
    (runs / "run" / "result.json").unlink()
    with pytest.raises(UserError, match=r"last\.pt is not a checkpoint of this training .*--force"):
        execute(recipe(PRETRAIN, epochs=1), "pretrain", runs / "run", resume=True)


@pytest.mark.slow
def test_sigkill_five_times_at_random_moments_changes_nothing(runs: Path, tmp_path: Path) -> None:
    given = recipe(TRAIN, epochs=6, tasks_per_epoch=25)
    file, run = tmp_path / "feat.toml", runs / "killed"
    file.write_text(recipe_text(given))
    program = (
        "import fewset.training.loop as loop\n"
        "loop.CHECKPOINT_SECONDS = 0.05\n"
        "from fewset.cli.app import main\n"
        "main()"
    )

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", program, "train", str(file), "--out", str(run), "--resume"]
        return subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1", "FEWSET_TUNE": "0"})

    def kept() -> int:
        return (run / CHECKPOINT).stat().st_mtime_ns if (run / CHECKPOINT).exists() else 0

    moments = random.Random(0)
    for _ in range(5):
        before = kept()
        process = start()
        while kept() == before and process.poll() is None:
            time.sleep(0.01)
        time.sleep(moments.uniform(0.0, 0.1))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it ended before it was killed"
    assert start().wait() == 0
    execute(given, "train", runs / "whole")
    first, second = ((runs / name / "model.safetensors").read_bytes() for name in ("whole", "killed"))
    assert first == second
