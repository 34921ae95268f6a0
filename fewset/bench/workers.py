"""A side of a comparison as a process of its own, which is asked for one repetition after another.

One line of JSON each way. The first line a worker gets names its side and the options and plugins; every
further one asks for a repetition; at the end of its input it reports how much memory it took, and on which
machine.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from fewset.compute.machine import describe, peak_memory, tune
from fewset.core.errors import UserError

Repetition = dict[str, Any]
"""What a side returns for a repetition: `seconds` and `images` at least."""


class Side(NamedTuple):
    """What a worker makes once, by `make(**options)`, and then calls for each repetition.

    `tuned` is with fewset's process-wide settings, else as PyTorch starts by default.
    """

    make: Callable[..., Callable[[], Repetition]]
    options: dict[str, Any]
    tuned: bool = True

    @property
    def place(self) -> tuple[str, str]:
        """The module and the name by which the worker finds it."""
        return self.make.__module__, self.make.__name__


class Worker:
    """The calling end. The worker loads `plugins` first; `threads` is by default as many as here."""

    def __init__(self, side: Side, *, plugins: Sequence[Path] = (), threads: int | None = None) -> None:
        self.side = side
        settings = {"FEWSET_TUNE": "1" if side.tuned else "0"}
        if threads is not None:
            settings["OMP_NUM_THREADS"] = str(threads)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fewset.bench.workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | settings,
            start_new_session=True,  # Ctrl-C is for the calling end, which then ends this one
        )
        self._send({"side": side.place, "options": side.options, "plugins": [str(each) for each in plugins]})

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)  # and what it has started itself
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()

    def repeat(self) -> Repetition:
        self._send({})
        return self._receive()

    def finish(self) -> dict[str, Any]:
        """The most memory it took, in bytes (`peak_memory`), and a description of its `machine`."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        answer = self._receive()
        self.process.wait()
        return answer

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # `_receive` says why the worker ended
            print(json.dumps(message), file=self.process.stdin, flush=True)

    def _receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self.side.make.__name__} ended; its message is above")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise UserError(answer["error"])
        return answer


def take_turns(workers: Sequence[Worker], repetitions: int) -> list[list[Repetition]]:
    """The repetitions of each worker, taken in turns, after one that warms up and does not count."""
    for worker in workers:
        worker.repeat()
    rounds = [[worker.repeat() for worker in workers] for _ in range(repetitions)]
    return [list(one) for one in zip(*rounds, strict=True)]


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is not an answer
    try:
        for answer in _answers():
            print(json.dumps(answer), file=answers, flush=True)
    except UserError as error:
        print(json.dumps({"error": str(error)}), file=answers, flush=True)


def _answers() -> Iterator[dict[str, Any]]:
    tune()
    from fewset.experiments.plugins import load_plugin  # imports torch, which `tune` must precede

    first = json.loads(sys.stdin.readline())
    for plugin in first["plugins"]:
        load_plugin(Path(plugin))
    module, name = first["side"]
    side = getattr(import_module(module), name)(**first["options"])
    for _ in sys.stdin:
        yield side()
    yield {"peak_memory": peak_memory(), "machine": describe()}


if __name__ == "__main__":
    _serve()
