"""Commands in processes that are forked from one which has loaded everything and computed nothing."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

CHECKPOINT_SECONDS = 0.02


class KilledError(Exception):
    """A command was killed."""


def load_everything() -> None:
    """Import the modules of the commands, but compute nothing: a process that has computed cannot fork."""
    from fewset.cli.app import app
    from fewset.training import loop

    assert app
    loop.CHECKPOINT_SECONDS = CHECKPOINT_SECONDS
    for module in (
        "fewset.classify.card",
        "fewset.classify.classifier",
        "fewset.data.images.importing",
        "fewset.experiments.train_run",
        "fewset.report.page",
        "matplotlib.pyplot",
    ):
        __import__(module)


def start(words: Sequence[str], place: Path, log: str = "log") -> int:
    """Begin a command in a directory; its output goes to the file `log` there. Returns the process."""
    process = os.fork()
    if process == 0:
        os._exit(_child(words, place, log))
    return process


def exit_code(process: int) -> int:
    """Wait until a command ends."""
    _, status = os.waitpid(process, 0)
    if os.WIFSIGNALED(status):
        raise KilledError
    return os.WEXITSTATUS(status)


def run(words: Sequence[str], place: Path, seconds: float | None = None) -> float:
    """Run a command in its own process; kill it after some seconds, if given. Returns how long it took."""
    begin = time.monotonic()
    process = start(words, place)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)
    code = exit_code(process)
    if code != 0:
        raise AssertionError(f"fewset {' '.join(words)} ended with {code}: {(place / 'log').read_text()}")
    return time.monotonic() - begin


def _child(words: Sequence[str], place: Path, log: str) -> int:
    os.environ["FEWSET_HOME"] = str(place / "home")
    os.chdir(place)
    file = os.open(place / log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.argv = ["fewset", *words]
    from fewset.cli.app import main

    try:
        main()
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 1
    return 0
