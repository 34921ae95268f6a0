"""Several processes under torchrun (gloo, on this machine) against one. Every launch has a time limit."""

import json
import os
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fewset.cli import app as cli
from fewset.compute import distributed
from fewset.core.errors import UserError
from fewset.evaluation import scoring
from fewset.experiments.config import Recipe
from fewset.experiments.recipes import parse_recipe, recipe_text
from fewset.experiments.run_directory import RunDirectory
from fewset.experiments.score_run import evaluate_run
from fewset.experiments.train_run import execute
from fewset.experiments.weights import load
from fewset.training.loop import PerStep, check_divisible
from tests.helpers import work
from tests.helpers.features import make_table
from tests.helpers.processes import ROOT, launched, succeed, torchrun

MODEL = {"backbone": "conv4", "backbone_options": {"input_size": 16, "dim": 8}, "adapter": "attention"}
STILL = {"adapter_options": {"attention_dropout": 0.0, "dropout": 0.0}}


def recipe(**train: object) -> Recipe:
    tasks = {"way": 3, "query": 3, "validation_way": 3, "validation_query": 3, "validation_tasks": 11}
    return parse_recipe(
        {
            "name": "feat",
            "data": {"set": "tiny", "hold_out": 0.4},
            "model": MODEL | STILL,
            "train": {**tasks, **train},
            "evaluate": {"way": 3, "query": 3, "tasks": 23},
        }
    )


@pytest.fixture
def run(tmp_path: Path, tiny_set: object) -> Path:  # noqa: ARG001
    """A FEAT with random weights."""
    execute(recipe(epochs=0), "train", tmp_path / "feat")
    return tmp_path / "feat"


@pytest.mark.slow
def test_eval_gives_the_same_to_the_bit(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the command line: 5 chunks of tasks on 2 batches of images."""
    words = ["--split", "train", "--way", "5", "--shot", "4", "--query", "7", "--tasks", "20000"]
    alone, together = (shutil.copytree(run, run.with_name(name)) for name in ("alone", "together"))
    monkeypatch.setattr("sys.argv", ["fewset", "eval", str(alone), *words])
    with pytest.raises(SystemExit, match="0"):
        cli.main()
    output = succeed(2, "-m", "fewset", "eval", together, *words, "--json")
    (file,) = (together / "results").glob("*.json")
    result = json.loads(file.read_text())
    assert json.loads(output) == result  # printed once
    expected = json.loads((alone / "results" / file.name).read_text())
    differ = {key for key in result if result[key] != expected[key]}
    assert differ <= {"command", "seconds", "versions"}
    assert result["versions"]["processes"] == 2
    for name in (result["per_task"], result["before"]["per_task"]):
        assert (together / "results" / name).read_bytes() == (alone / "results" / name).read_bytes()
    with (
        np.load(together / "results" / result["examples"]) as found,
        np.load(alone / "results" / result["examples"]) as examples,
    ):
        for name in examples:
            np.testing.assert_array_equal(found[name], examples[name])


@pytest.mark.slow
def test_everything_is_as_with_one_process(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every setting to the bit; training with two tasks a step, one in each process, up to rounding."""
    monkeypatch.setattr(scoring, "_CHUNK_SIZE", work.CHUNK)
    runs, table = tmp_path / "runs", make_table().path
    shutil.copytree(run, runs / "feat")
    exact, close = work.everything(run, table, tasks=2)

    output = succeed(2, ROOT / "tests" / "helpers" / "work.py", runs, table)

    with np.load(runs / "exact.npz") as found:
        assert set(found) == set(exact)
        for name in exact:
            assert found[name].tobytes() == exact[name].tobytes(), name
    with np.load(runs / "close.npz") as found:
        assert set(found) == set(close)
        np.testing.assert_allclose(found["weights"], close["weights"], rtol=0, atol=1e-9)  # float64
        for name in close:
            np.testing.assert_allclose(found[name], close[name], rtol=0, atol=1e-5, err_msg=name)
    result = json.loads((runs / "pre" / "result.json").read_text())
    assert output.splitlines() == [f"{result['mean']}"]  # only the first process prints
    rows = [json.loads(line) for line in (runs / "pre" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [3, 6]
    assert json.loads((runs / "pre" / "environment.json").read_text())["processes"] == 2
    np.testing.assert_array_equal(
        np.load(runs / "pre" / "per_task.npy"),
        np.load(runs / "pre" / evaluate_run(runs / "pre")[0].per_task),
    )


STOPPING = """
import datetime, os, signal, sys
from pathlib import Path
from fewset.cli import app as cli
from fewset.compute import distributed
from fewset.training import loop
loop.CHECKPOINT_SECONDS = 0.0
distributed.TIMEOUT = datetime.timedelta(seconds={timeout})
step = loop.train_step
def stops(stage, number):
    if distributed.rank() == 1 and number == 7:
        Path(sys.argv[0]).with_suffix(".pid").write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.{signal})
    return step(stage, number)
loop.train_step = stops
cli.main()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_set")
def test_a_killed_process_ends_the_run_which_resumes_to_the_same_weights(tmp_path: Path) -> None:
    """With dropout and trained BatchNorm, whose statistics the processes share."""
    given = recipe(epochs=2, tasks_per_epoch=10, tasks_per_step=2, augment=["flip"])
    given = replace(given, model=replace(given.model, adapter_options={}))
    file, script, out = tmp_path / "feat.toml", tmp_path / "stopping.py", tmp_path / "runs" / "feat"
    file.write_text(recipe_text(given))
    script.write_text(STOPPING.format(signal="SIGKILL", timeout=60))
    done = torchrun(2, script, "train", file, "--out", out)
    assert done.returncode != 0
    assert done.stderr.count("error: process 0 of 2 stops: ") == 1
    assert "defect of fewset" not in done.stderr
    assert RunDirectory(out).state == "unfinished"
    state = RunDirectory(out).files.load_checkpoint()
    assert state is not None
    assert state["step"] in (6, 7)  # the first process may end before it has written the seventh
    succeed(2, "-m", "fewset", "train", file, "--out", out, "--resume")
    succeed(2, "-m", "fewset", "train", file, "--out", tmp_path / "runs" / "whole")
    assert f"resumed at step {state['step']}" in (out / "log.txt").read_text()
    expected, found = load(tmp_path / "runs" / "whole").state_dict(), load(out).state_dict()
    for name in expected:
        assert torch.equal(found[name], expected[name]), name
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_set")
def test_a_process_that_hangs_ends_the_run(tmp_path: Path) -> None:
    """As behind a link that is cut: it is stopped and closes nothing."""
    (tmp_path / "feat.toml").write_text(recipe_text(recipe(epochs=1, tasks_per_epoch=20, tasks_per_step=2)))
    (tmp_path / "stopping.py").write_text(STOPPING.format(signal="SIGSTOP", timeout=15))
    words = tmp_path / "stopping.py", "train", tmp_path / "feat.toml", "--out", tmp_path / "feat"
    with launched(2, *words) as process:
        assert process.stderr is not None
        lines = (line for line in process.stderr if line.startswith("error: "))
        assert next(lines).startswith("error: process 0 of 2 stops: another process")
        # torchrun, too, ends it, but waits half a minute for an answer first.
        os.kill(int((tmp_path / "stopping.pid").read_text()), signal.SIGKILL)


WAITING = """
import os, sys, time
from pathlib import Path
from fewset.compute import distributed
with distributed.session():
    distributed.all_gather(0)
    Path(sys.argv[1], f"{distributed.rank()}.pid").write_text(str(os.getpid()))
    if distributed.rank() == 1:
        time.sleep(1000)
    distributed.all_gather(0)  # waits inside of torch for the other
"""


@pytest.mark.slow
def test_sigterm_ends_a_process_that_waits_for_another(tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text(WAITING)
    with launched(2, tmp_path / "waiting.py", tmp_path) as process:
        files = [tmp_path / f"{rank}.pid" for rank in range(2)]
        while not all(file.exists() and file.read_text() for file in files):
            time.sleep(0.1)
        began = time.monotonic()
        os.kill(int(files[0].read_text()), signal.SIGTERM)
        assert process.stderr is not None
        line = next(line for line in process.stderr if line.startswith("error: "))
        assert line.startswith("error: process 0 of 2 stops: torchrun ended it")
        assert process.wait(30) != 0  # both have ended, without the minute of the process group
        assert time.monotonic() - began < 30


DIVERGING = """
from fewset.cli import app as cli
from fewset.compute import distributed
from fewset.training import loop
from fewset.training.episodic import MetaTraining
loop.CHECKPOINT_SECONDS = 0.0
step = MetaTraining.step
def diverges(stage, number):
    found = step(stage, number)
    if distributed.rank() == 1 and number == 3:
        found = found._replace(loss=found.loss * float("nan"))
    return found
MetaTraining.step = diverges
cli.main()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("tiny_set")
def test_a_loss_that_is_nan_in_one_process_stops_all(tmp_path: Path) -> None:
    (tmp_path / "feat.toml").write_text(recipe_text(recipe(epochs=1, tasks_per_epoch=20, tasks_per_step=2)))
    (tmp_path / "diverging.py").write_text(DIVERGING)
    done = torchrun(2, tmp_path / "diverging.py", "train", tmp_path / "feat.toml", "--out", tmp_path / "feat")
    assert done.returncode != 0
    assert done.stderr.count("stopped at step 4 of 10: its loss is nan") == 1  # the main process tells
    state = RunDirectory(tmp_path / "feat").files.load_checkpoint()
    assert state is not None
    assert state["step"] == 3
    assert all(value.isfinite().all() for value in state["module"].values())


# Without other processes


def pretend(monkeypatch: pytest.MonkeyPatch, rank: int, world: int) -> None:
    monkeypatch.setattr(distributed, "_processes", distributed._Processes(rank, world, rank))


@pytest.mark.parametrize("world", [1, 2, 3, 5])
@pytest.mark.parametrize("total", [1, 7, 12, 23])
def test_shards_are_whole_chunks_and_cover_everything_once(
    total: int, world: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distributed, "all_gather", lambda _: None)
    shards, chunks = set(), set()
    for rank in range(world):
        pretend(monkeypatch, rank, world)
        shards.add(distributed.shard(total, 4))
        own = list(distributed.own_chunks(total, 4))
        assert (own[0][0], own[-1][1]) == distributed.shard(total, 4)
        chunks.update(own)
    assert sorted(chunks) == [(first, min(first + 4, total)) for first in range(0, total, 4)]
    lengths = [-(-(last - first) // 4) for first, last in shards]
    assert max(lengths) - min(lengths) <= 1


def test_a_step_that_cannot_be_divided_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 0, 3)
    check_divisible(PerStep("train.tasks_per_step", 6))
    with pytest.raises(UserError, match=r"--set train\.tasks_per_step=3"):
        check_divisible(PerStep("train.tasks_per_step", 1))
    with pytest.raises(UserError, match=r"--set pretrain\.batch=126"):
        check_divisible(PerStep("pretrain.batch", 128))


@pytest.mark.parametrize(
    ("given", "local", "cores", "expected"),
    [(None, 1, 7, 7), ("1", 2, 7, 3), ("1", 8, 7, 1), ("5", 2, 7, 5)],
)
def test_threads(
    given: str | None, local: int, cores: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cores are those that a single process would take: physical ones, within the control group."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if given is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", given)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(local))
    monkeypatch.setattr(distributed, "usable_cores", lambda: cores)
    assert distributed._threads() == expected
