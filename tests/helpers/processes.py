"""Several processes under torchrun, on this machine. Every launch has a time limit."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT = 280  # seconds: many times what a launch takes, for a machine that is busy with other things


@contextmanager
def launched(processes: int, *words: object) -> Iterator[subprocess.Popen[str]]:
    """torchrun with so many processes; none of them outlives the block."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", processes]
    with limited([*command, *words]) as process:
        yield process


@contextmanager
def limited(
    command: Sequence[object], environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A command that ends after `LIMIT` seconds or with the block."""
    process = subprocess.Popen(
        [str(word) for word in command],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **(environ or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    watch = threading.Timer(LIMIT, os.killpg, (process.pid, signal.SIGKILL))
    watch.start()
    try:
        with process:
            try:
                yield process
            finally:
                process.terminate()
    finally:
        watch.cancel()


def torchrun(processes: int, *words: object) -> subprocess.CompletedProcess[str]:
    with launched(processes, *words) as process:
        out, err = process.communicate(timeout=LIMIT)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def succeed(processes: int, *words: object) -> str:
    done = torchrun(processes, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout
