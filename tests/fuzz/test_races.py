"""Two real processes in one place."""

import subprocess
import sys

import pytest

from tests.helpers.processes import ROOT


@pytest.mark.slow
def test_two_processes_at_once_end_right_or_refuse() -> None:
    """In a process of its own, which has computed nothing when it is forked."""
    command = [sys.executable, "-m", "tests.fuzz", "races"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": as it should be\n") == 5
