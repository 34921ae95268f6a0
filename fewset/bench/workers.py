"""A side of a comparison as a process of its own, which computes one repetition whenever it is asked.

The allocator and the number of threads belong to a process. It gets the side by name, so that its settings
come before the import of torch. At the end it reports how much memory it took, and on which machine.
"""

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from fewset.compute.machine import describe, peak_memory, tune
from fewset.core.errors import UserError

Repetition = dict[str, Any]
"""The measurements of a side in a repetition: `seconds` and `images` at least."""


class Side(NamedTuple):
    """A worker makes `make(**options)` once, and calls it for each repetition.

    `tuned` is with fewset's process-wide settings, else as PyTorch starts by default.
    """

    make: Callable[..., Callable[[], Repetition]]
    options: dict[str, Any]
    tuned: bool = True


class Worker:
    """The calling end. The worker loads `plugins` first; `threads` is by default as many as here."""

    def __init__(self, side: Side, *, plugins: Sequence[Path] = (), threads: int | None = None) -> None:
        self.name = side.make.__name__
        settings = {"FEWSET_TUNE": "1" if side.tuned else "0"}
        if threads is not None:
            settings["OMP_NUM_THREADS"] = str(threads)
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        given = (theirs, side.make.__module__, self.name, side.options, plugins)
        self.process = context.Process(target=_serve, args=given)
        with patch.dict(os.environ, settings):
            self.process.start()
        theirs.close()

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.pid is not None and self.process.is_alive():
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)  # and what it has started itself
            self.process.kill()
        self.process.join()
        self.pipe.close()

    def repeat(self) -> Repetition:
        return self._ask("repeat")

    def finish(self) -> dict[str, Any]:
        """The most memory it took, in bytes (`peak_memory`), and a description of its `machine`."""
        return self._ask("finish")

    def _ask(self, question: str) -> dict[str, Any]:
        try:
            with suppress(BrokenPipeError):  # it has ended, and may have said why
                self.pipe.send(question)
            answer: dict[str, Any] | UserError = self.pipe.recv()
        except (EOFError, ConnectionError):
            raise RuntimeError(f"the process of {self.name} ended; its message is above") from None
        if isinstance(answer, UserError):
            raise answer
        return answer


def take_turns(workers: Sequence[Worker], repetitions: int) -> list[list[Repetition]]:
    """The repetitions of each worker, taken in turns, after one that warms up and does not count."""
    for worker in workers:
        worker.repeat()
    rounds = [[worker.repeat() for worker in workers] for _ in range(repetitions)]
    return [list(one) for one in zip(*rounds, strict=True)]


def _serve(
    pipe: Connection, module: str, name: str, options: dict[str, Any], plugins: Sequence[Path]
) -> None:
    os.setsid()  # Ctrl-C is for the calling end, which then ends this one
    os.dup2(2, 1)  # a library may print, but standard output is for the record
    tune()
    from fewset.experiments.plugins import load_plugin  # imports torch, which `tune` must precede

    try:
        for plugin in plugins:
            load_plugin(plugin)
        side = getattr(import_module(module), name)(**options)
        while pipe.recv() == "repeat":
            pipe.send(side())
        pipe.send({"peak_memory": peak_memory(), "machine": describe()})
    except UserError as error:
        pipe.send(error)
    except EOFError:  # the calling end is gone
        pass
