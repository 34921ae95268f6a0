"""Two machines, which are network namespaces, against one process; and a link that is cut."""

import json
import shutil
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from fewset.compute import hosts
from fewset.experiments.recipes import recipe_text
from fewset.experiments.run_directory import RunDirectory
from fewset.experiments.train_run import execute
from fewset.experiments.weights import load
from tests.compute.test_distributed import recipe
from tests.helpers.command_line import fewset_in_a_new_process
from tests.helpers.hosts import INTERFACES, available, cut_link, torchrun_on, two_hosts
from tests.helpers.processes import LIMIT, succeed

needs_two = pytest.mark.skipif(not available(), reason="network namespaces need Linux, root and iproute2")


# Addresses, without other machines


@pytest.mark.parametrize(
    ("environ", "names", "told"),
    [
        ({"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, {}, None),  # one machine
        ({}, {"first": "10.0.0.1", "this": "10.0.0.2"}, None),
        ({}, {"first": "127.0.1.1", "this": "10.0.0.2"}, "--local-addr ADDRESS"),
        ({"GROUP_RANK": "0"}, {"first": "127.0.1.1", "this": "10.0.0.2"}, None),  # as Debian has its own name
        ({"GROUP_RANK": "0", "MASTER_ADDR": "127.0.0.1"}, {"127.0.0.1": "127.0.0.1"}, "--local-addr ADDRESS"),
        ({}, {"first": "10.0.0.1", "this": "127.0.1.1"}, "GLOO_SOCKET_IFNAME"),
        ({}, {"first": "10.0.0.1"}, "GLOO_SOCKET_IFNAME"),  # the name of this machine has no address
        ({"GLOO_SOCKET_IFNAME": "eth0"}, {"first": "10.0.0.1", "this": "127.0.1.1"}, None),
    ],
)
def test_addresses_that_others_cannot_reach(
    environ: dict[str, str], names: dict[str, str], told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def address(name: str) -> str:
        if name not in names:
            raise OSError
        return names[name]

    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    usual = {"WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "1", "MASTER_ADDR": "first"}
    for name, value in (usual | environ).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("socket.gethostname", lambda: "this")
    monkeypatch.setattr("socket.gethostbyname", address)
    found = hosts.unreachable()
    assert (found is None) if told is None else (found is not None and told in found)


# Two machines


def on_both(*words: object, restarts: int = 0, interface: bool = True) -> list[tuple[int, str, str]]:
    """The exit code and the output of a command on each machine."""
    with ExitStack() as stack:
        both = [
            stack.enter_context(torchrun_on(host, *words, restarts=restarts, interface=interface))
            for host in (0, 1)
        ]
        texts = [process.communicate(timeout=LIMIT) for process in both]
    return [(process.returncode, *text) for process, text in zip(both, texts, strict=True)]


@needs_two
@pytest.mark.slow
@pytest.mark.usefixtures("tiny_set")
def test_evaluation_on_two_machines_is_that_of_one_process(tmp_path: Path) -> None:
    execute(recipe(epochs=0), "train", tmp_path / "alone")
    shutil.copytree(tmp_path / "alone", tmp_path / "together")
    words = "--split", "train", "--way", "5", "--shot", "4", "--query", "7", "--tasks", "20000"
    done = fewset_in_a_new_process("eval", tmp_path / "alone", *words)
    assert done.returncode == 0, done.stderr
    with two_hosts():
        first, second = on_both("-m", "fewset", "eval", tmp_path / "together", *words)
    assert (first[0], second[0]) == (0, 0), first[2] + second[2]
    assert min(first[1], second[1]) == ""  # one process prints
    (file,) = (tmp_path / "together" / "results").glob("*.json")
    result, expected = (
        json.loads((tmp_path / run / "results" / file.name).read_text()) for run in ("together", "alone")
    )
    assert result["versions"]["processes"] == 2
    assert (result["mean"], result["ci95"]) == (expected["mean"], expected["ci95"])
    for name in (result["per_task"], result["before"]["per_task"]):
        found, alone = (tmp_path / run / "results" / name for run in ("together", "alone"))
        assert found.read_bytes() == alone.read_bytes()


LOST = """
import os, signal, sys
from pathlib import Path
from fewset.cli import app as cli
from fewset.training import loop
loop.CHECKPOINT_SECONDS = 0.0
step = loop.train_step
def stops(stage, number):
    lost = Path(sys.argv[0]).with_suffix(".lost")
    if os.environ["GLOO_SOCKET_IFNAME"] == {interface!r} and number == 7 and not lost.exists():
        lost.touch()
        for process in (os.getppid(), os.getpid()):  # torchrun, too
            os.kill(process, signal.SIGKILL)
    return step(stage, number)
loop.train_step = stops
cli.main()
"""


@needs_two
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("tiny_set")
def test_training_goes_on_when_a_lost_machine_is_back(tmp_path: Path) -> None:
    """The same command on that machine; the other one, whose torchrun may restart, needs none."""
    given = recipe(epochs=2, tasks_per_epoch=10, tasks_per_step=2)
    file, script, out = tmp_path / "feat.toml", tmp_path / "stops.py", tmp_path / "runs" / "feat"
    file.write_text(recipe_text(given))
    script.write_text(LOST.format(interface=INTERFACES[1]))
    words = script, "train", file, "--out", out, "--resume"
    with two_hosts(), torchrun_on(0, *words, restarts=3) as first:
        with torchrun_on(1, *words, restarts=3) as second:
            second.communicate(timeout=LIMIT)
        assert (tmp_path / "stops.lost").exists()
        assert RunDirectory(out).state == "unfinished"
        with torchrun_on(1, *words, restarts=3) as second:
            _, told = first.communicate(timeout=LIMIT)
            _, other = second.communicate(timeout=LIMIT)
    assert (first.returncode, second.returncode) == (0, 0), told + other
    assert told.count("error: process ") == 1
    assert "resumed at step" in (out / "log.txt").read_text()
    succeed(2, "-m", "fewset", "train", file, "--out", tmp_path / "runs" / "whole")
    expected, found = load(tmp_path / "runs" / "whole").state_dict(), load(out).state_dict()
    for name in expected:
        assert torch.equal(found[name], expected[name]), name


ENDLESS = """
import sys, time
from pathlib import Path
from fewset.compute import distributed
with distributed.session():
    while True:
        distributed.all_gather(0)
        Path(sys.argv[1], str(distributed.rank())).touch()
        time.sleep(0.1)
"""


@needs_two
@pytest.mark.slow
def test_both_machines_end_within_a_minute_when_the_link_is_cut(tmp_path: Path) -> None:
    """torchrun would wait for its store for a quarter of an hour."""
    (tmp_path / "endless.py").write_text(ENDLESS)
    words = tmp_path / "endless.py", tmp_path
    with two_hosts(), torchrun_on(0, *words) as first, torchrun_on(1, *words) as second:
        while not all((tmp_path / rank).exists() for rank in "01"):
            assert first.poll() is None
            time.sleep(0.1)
        cut_link()
        began = time.monotonic()
        for process in (first, second):
            _, told = process.communicate(timeout=LIMIT)
            assert time.monotonic() - began < 60
            assert process.returncode != 0
            assert told.count(" of 2 stops: another process has ended") == 1


@needs_two
@pytest.mark.slow
def test_a_name_that_others_cannot_reach_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    with two_hosts():
        both = on_both(tmp_path / "endless.py", tmp_path, interface=False)
    told = "".join(text for _, _, text in both)
    assert all(code != 0 for code, _, _ in both)
    assert "error: the name of this machine, localhost, stands for an address" in told
    assert any(f"to a network interface: {interface}\n" in told for interface in INTERFACES)
    assert "Gloo connectFullMesh" not in told
