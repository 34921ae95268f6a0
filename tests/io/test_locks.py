"""Locks: one process at a time, though the file of a lock is removed with it."""

import subprocess
import sys
from pathlib import Path

_COUNT = """
import sys
from pathlib import Path
from fewset.io.locks import in_turn

lock, counter = Path(sys.argv[1]), Path(sys.argv[2])
for _ in range(50):
    with in_turn(lock):
        counter.write_text(str(int(counter.read_text()) + 1))
"""


def test_no_two_processes_hold_a_lock_at_once(tmp_path: Path) -> None:
    """filelock before 3.21 let those in that had opened the file before it was removed."""
    (tmp_path / "counter").write_text("0")
    words = [sys.executable, "-c", _COUNT, str(tmp_path / "lock"), str(tmp_path / "counter")]
    processes = [subprocess.Popen(words) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert (tmp_path / "counter").read_text() == "150"
    assert not (tmp_path / "lock").exists()
