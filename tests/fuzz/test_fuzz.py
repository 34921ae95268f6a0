"""A small run of what `make fuzz` and `make kills` do for long, and the page of their records."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.campaign import Worker
from tests.fuzz.case import load_readers
from tests.fuzz.judge import ACCEPTED
from tests.fuzz.page import PAGE, RECORDS, ROOT, reliability_page
from tests.fuzz.room import build_room


def run(*words: object) -> str:
    """In a process of its own: a process that has computed cannot be forked."""
    command = [sys.executable, "-m", "tests.fuzz", *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_some_inputs_of_every_reader(tmp_path: Path) -> None:
    """Below index 0 nothing is damaged, and every reader must accept it."""
    worker = Worker(build_room(tmp_path / "room"), seed=0)
    try:
        found = {(name, index): worker.read(name, index) for name in load_readers() for index in (-1, 1, 2)}
    finally:
        worker.stop()
    for (name, index), verdict in found.items():
        assert verdict.good if index > 0 else verdict.kind == ACCEPTED, (name, index, verdict)


@pytest.mark.slow
def test_kills_at_random_moments_change_nothing(tmp_path: Path) -> None:
    run("kills", "--kills", 4, "--seed", 1, "--record", tmp_path / "kills.json")
    assert sum(json.loads((tmp_path / "kills.json").read_text())["kills"].values()) == 4


@pytest.mark.slow
def test_two_processes_in_one_place_end_right_or_with_one_line() -> None:
    run("races")


def test_the_page_is_up_to_date_and_nothing_was_wrong() -> None:
    assert PAGE.read_text(encoding="utf-8") == reliability_page()
    fuzz, kills = (json.loads((RECORDS / f"{name}.json").read_text()) for name in ("fuzz", "kills"))
    assert not any(counts["wrong"] for counts in fuzz["readers"].values())
    assert not kills["wrong"]
