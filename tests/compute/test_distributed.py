"""Several processes under torchrun (gloo, on this machine) against one. Every launch has a time limit."""

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed as dist

from fewset.cli import app as cli
from fewset.compute import distributed
from fewset.evaluation import scoring
from fewset.experiments.config import Recipe
from fewset.experiments.evaluate import evaluate_run
from fewset.experiments.execute import execute
from fewset.experiments.recipes import parse_recipe, recipe_text
from fewset.experiments.result import read_result
from fewset.experiments.run_directory import RunDirectory
from fewset.experiments.weights import load
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


@pytest.mark.parametrize("processes", [2, 3])
def test_eval_gives_the_same_to_the_bit(processes: int, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the command line: 5 chunks of tasks on 2 batches of images."""
    words = ["--split", "train", "--way", "5", "--shot", "4", "--query", "7", "--tasks", "20000"]
    alone, together = (shutil.copytree(run, run.with_name(name)) for name in ("alone", "together"))
    monkeypatch.setattr("sys.argv", ["fewset", "eval", str(alone), *words])
    with pytest.raises(SystemExit, match="0"):
        cli.main()
    output = succeed(processes, "-m", "fewset", "eval", together, *words, "--json")
    (file,) = (together / "results").glob("*.json")
    result = json.loads(file.read_text())
    assert json.loads(output) == result  # printed once
    expected = json.loads((alone / "results" / file.name).read_text())
    differ = {key for key in result if result[key] != expected[key]}
    assert differ <= {"command", "seconds", "versions"}
    assert result["versions"]["processes"] == processes
    for name in (result["per_task"], result["before"]["per_task"]):
        assert (together / "results" / name).read_bytes() == (alone / "results" / name).read_bytes()
    with (
        np.load(together / "results" / result["examples"]) as found,
        np.load(alone / "results" / result["examples"]) as examples,
    ):
        for name in examples:
            np.testing.assert_array_equal(found[name], examples[name])


def test_everything_is_as_with_one_process(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every setting to the bit; training with three tasks a step, one in each process, up to rounding."""
    monkeypatch.setattr(scoring, "_CHUNK_NUMBERS", work.CHUNK)
    runs, table = tmp_path / "runs", make_table().path
    shutil.copytree(run, runs / "feat")
    exact, close = work.everything(run, table, tasks=3)
    execute(parse_recipe(work.PRETRAIN), "pretrain", tmp_path / "whole")
    monkeypatch.setattr(RunDirectory, "write_metrics", _interrupt)
    with pytest.raises(KeyboardInterrupt):  # at the end of the first epoch; three processes go on
        execute(parse_recipe(work.PRETRAIN), "pretrain", runs / "pre")

    output = succeed(3, ROOT / "tests" / "helpers" / "work.py", runs, table)

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
    told, mean = output.splitlines()  # only the first process prints
    assert told.startswith("the number of processes was 1 when the run began and is 3 now")
    assert mean == f"{result['mean']}"
    weights = [load(folder).state_dict() for folder in (runs / "pre", tmp_path / "whole")]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[1])
    rows = [json.loads(line) for line in (runs / "pre" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [3, 6]
    assert json.loads((runs / "pre" / "environment.json").read_text())["processes"] == 3
    np.testing.assert_array_equal(
        np.load(runs / "pre" / "per_task.npy"),
        np.load(runs / "pre" / evaluate_run(runs / "pre")[0].per_task),
    )


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


DYING = """
import os, signal, sys
from pathlib import Path
from fewset.cli import app as cli
from fewset.compute import distributed
from fewset.training import loop
loop.CHECKPOINT_SECONDS = 0.0
distributed.BEAT, distributed.SILENCE = 0.2, 3.0
step = loop.train_step
def stops(stage, number, parts):
    if distributed.rank() == {rank} and number == 7:
        Path(sys.argv[0]).with_suffix(".pid").write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.{signal})
    return step(stage, number, parts)
loop.train_step = stops
cli.main()
"""


@pytest.mark.usefixtures("tiny_set")
@pytest.mark.parametrize(
    ("rank", "processes"), [(0, 1), (1, 3)], ids=["the main process", "another, and more go on"]
)
def test_a_process_that_dies_ends_the_run_and_another_number_goes_on_to_the_same_weights(
    rank: int, processes: int, tmp_path: Path
) -> None:
    given = recipe(epochs=2, tasks_per_epoch=10, tasks_per_step=2, augment=["flip"])
    file, script, out = tmp_path / "feat.toml", tmp_path / "dying.py", tmp_path / "runs" / "feat"
    file.write_text(recipe_text(given))
    script.write_text(DYING.format(signal="SIGKILL", rank=rank))
    done = torchrun(2, script, "train", file, "--out", out)
    assert done.returncode != 0
    assert f"error: process {1 - rank} of 2 stops: " in done.stderr
    assert "--resume" in done.stderr
    assert RunDirectory(out).state == "unfinished"
    assert not list(out.rglob("*.partial"))
    state = RunDirectory(out).load_checkpoint()
    assert state is not None
    assert state["step"] in (6, 7)  # the first process may be ended before it has written the seventh
    whole = shutil.copytree(out, tmp_path / "runs" / "whole")
    shutil.rmtree(whole / "checkpoint")  # begun by two processes, and done by one from the first step on
    execute(given, "train", whole, resume=True)
    if processes == 1:
        execute(given, "train", out, resume=True)
    else:
        succeed(processes, "-m", "fewset", "train", file, "--out", out, "--resume")
    log = (out / "log.txt").read_text()
    assert f"was 2 when the run began and is {processes} now" in log
    assert f"resumed at step {state['step']}" in log
    assert read_result(out / "result.json").versions["processes"] == processes
    expected, found = load(whole).state_dict(), load(out).state_dict()
    for name in expected:
        assert torch.equal(found[name], expected[name]), name
    assert len((out / "metrics.jsonl").read_text().splitlines()) == 2


@pytest.mark.usefixtures("tiny_set")
def test_a_process_that_hangs_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "feat.toml").write_text(recipe_text(recipe(epochs=1, tasks_per_epoch=20, tasks_per_step=2)))
    (tmp_path / "dying.py").write_text(DYING.format(signal="SIGSTOP", rank=1))
    words = tmp_path / "dying.py", "train", tmp_path / "feat.toml", "--out", tmp_path / "feat"
    with launched(2, *words) as process:
        assert process.stderr is not None
        lines = (line for line in process.stderr if line.startswith("error: "))
        assert "process 1 has given no sign of life" in next(lines)
        # torchrun, too, ends it, but waits half a minute for an answer first.
        os.kill(int((tmp_path / "dying.pid").read_text()), signal.SIGKILL)


WAITING = """
import os, sys, time
from pathlib import Path
from fewset.compute import distributed
distributed.BEAT, distributed.GRACE, distributed.SILENCE = 0.2, 0.5, {silence}
with distributed.session():
    distributed.all_gather(0)
    Path(sys.argv[1], f"{{distributed.rank()}}.pid").write_text(str(os.getpid()))
    if distributed.rank() == 1:
        time.sleep(1000)
    distributed.all_gather(0)  # waits inside of torch for the other
"""


@contextmanager
def waiting(directory: Path, silence: float) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Two processes, of which the first waits for the second; torchrun, and the id of the first."""
    (directory / "waiting.py").write_text(WAITING.format(silence=silence))
    with launched(2, directory / "waiting.py", directory) as process:
        files = [directory / f"{rank}.pid" for rank in range(2)]
        while not all(file.exists() and file.read_text() for file in files):
            time.sleep(0.1)
        try:
            yield process, int(files[0].read_text())
        finally:
            for file in files:
                with suppress(ProcessLookupError):
                    os.kill(int(file.read_text()), signal.SIGKILL)
            process.send_signal(signal.SIGCONT)


def test_processes_end_when_the_store_does_not_answer(tmp_path: Path) -> None:
    """As behind a link that is cut: torchrun, which keeps the store, is stopped and closes nothing."""
    with waiting(tmp_path, silence=3.0) as (process, _):
        process.send_signal(signal.SIGSTOP)
        assert process.stderr is not None
        lines = (line for line in process.stderr if line.startswith("error: "))
        told = sorted(next(lines)[: len("error: process 0 of 2 stops: process 1")] for _ in range(2))
        assert told == [f"error: process {rank} of 2 stops: process {1 - rank}" for rank in range(2)]


def test_a_process_that_waits_for_another_heeds_sigterm(tmp_path: Path) -> None:
    with waiting(tmp_path, silence=1000.0) as (process, first):
        os.kill(first, signal.SIGTERM)
        assert process.stderr is not None
        line = next(line for line in process.stderr if line.startswith("error: "))
        assert line.startswith("error: process 0 of 2 stops: torchrun ended it")


DIVERGING = """
from fewset.cli import app as cli
from fewset.compute import distributed
from fewset.training import loop
from fewset.training.episodic import MetaTraining
loop.CHECKPOINT_SECONDS = 0.0
step = MetaTraining.step
def diverges(stage, number, part):
    found = step(stage, number, part)
    if distributed.rank() == 1 and number == 3:
        found = found._replace(loss=found.loss * float("nan"))
    return found
MetaTraining.step = diverges
cli.main()
"""


@pytest.mark.usefixtures("tiny_set")
def test_a_loss_that_is_no_number_in_one_process_stops_all(tmp_path: Path) -> None:
    (tmp_path / "feat.toml").write_text(recipe_text(recipe(epochs=1, tasks_per_epoch=20, tasks_per_step=2)))
    (tmp_path / "diverging.py").write_text(DIVERGING)
    done = torchrun(2, tmp_path / "diverging.py", "train", tmp_path / "feat.toml", "--out", tmp_path / "feat")
    assert done.returncode != 0
    assert done.stderr.count("stopped at step 4 of 10: its loss is nan") == 1  # the main process tells
    assert "no sign of life" not in done.stderr
    state = RunDirectory(tmp_path / "feat").load_checkpoint()
    assert state is not None
    assert state["step"] == 3
    assert all(value.isfinite().all() for value in state["module"].values())


# Without other processes


def pretend(monkeypatch: pytest.MonkeyPatch, rank: int, world: int) -> None:
    monkeypatch.setattr(distributed, "_processes", distributed._Processes(rank, world, rank))


@pytest.mark.parametrize("world", [1, 2, 3, 5])
@pytest.mark.parametrize("total", [1, 7, 11, 12, 13, 23])
def test_shares_are_whole_chunks_and_cover_everything_once(
    total: int, world: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunk, shares = 4, []
    for rank in range(world):
        pretend(monkeypatch, rank, world)
        first, last = distributed.shard(total, chunk)
        assert first % chunk == 0
        assert first < last
        assert last % chunk == 0 or last == total
        shares.append((first, last))
    covered = [item for first, last in sorted(set(shares)) for item in range(first, last)]
    assert covered == list(range(total))
    lengths = [-(-(last - first) // chunk) for first, last in set(shares)]
    assert max(lengths) - min(lengths) <= 1


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


def test_who_leaves_in_good_order_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 0, 2)
    monkeypatch.setattr(distributed, "BEAT", 0.001)
    store, pulse = dist.HashStore(), distributed._Pulse()
    store.add("1", distributed._LEFT)
    beating = threading.Thread(target=distributed._beat, args=(store, pulse))
    beating.start()
    began = time.monotonic()
    while pulse.heard < began + 0.1:  # many heartbeats of the other, none of which it has sent
        assert time.monotonic() < began + 30
    pulse.ended.set()
    beating.join()
    assert store.add("0", 0) >= distributed._LEFT
