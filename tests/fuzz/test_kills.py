"""A few of the kills that `make kills` does by the dozen."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.kills import JOBS, check_same, left_over, tree_of
from tests.fuzz.records import KillRecord, read
from tests.helpers.processes import ROOT


@pytest.mark.slow
def test_kills_at_random_moments_change_nothing(tmp_path: Path) -> None:
    """In a process of its own, which has computed nothing when it is forked."""
    command = [sys.executable, "-m", "tests.fuzz", "kills", "--kills", "4", "--seed", "1"]
    done = subprocess.run(
        [*command, "--record", tmp_path / "kills.json"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    record = read(KillRecord, tmp_path / "kills.json")
    assert sum(record.kills.values()) == 4
    assert set(record.kills) <= set(JOBS)


def test_what_differs_is_seen(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "result.json").write_text('{"mean": 0.5, "seconds": 3}')
    (tmp_path / "run" / "model").write_bytes(b"abc")
    before = tree_of(tmp_path / "run")
    (tmp_path / "run" / "result.json").write_text('{"mean": 0.5, "seconds": 4}')
    check_same(before, tree_of(tmp_path / "run"), left_over(tmp_path))
    (tmp_path / "run" / "result.json").write_text('{"mean": 0.6, "seconds": 4}')
    with pytest.raises(AssertionError, match=r"result\.json differs"):
        check_same(before, tree_of(tmp_path / "run"), [])
    (tmp_path / ".x.1.partial").touch()
    with pytest.raises(AssertionError, match=r"left over: \['\.x\.1\.partial'\]"):
        check_same(before, before, left_over(tmp_path))
    (tmp_path / "run" / "more").touch()
    with pytest.raises(AssertionError, match="other files"):
        check_same(before, tree_of(tmp_path / "run"), [])
