"""A process that reads inputs one after another, under a limit of memory; it is started anew after a crash.

It takes lines of JSON, `[reader, number]`, and answers each with a line: the verdict.
"""

import faulthandler
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.fuzz.case import draw, load_readers
from tests.fuzz.invariant import Verdict, Watch, caches, judge
from tests.fuzz.room import Room

MEMORY = 2**31
"""Bytes that an input may take beside what the process has after its first commands."""
SECONDS = 30
"""Of the processor's time that an input may take."""
PATIENCE = 240
"""Seconds that an input may take on a machine that is busy with other things, or when it only waits."""
ROOT = Path(__file__).parents[2]


def serve(room: Room, seed: int) -> None:
    """What the process does; ends with its input."""
    faulthandler.enable()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed goes to the log
    readers = load_readers()
    room.enter()
    watch = Watch([str(room.root), str(caches(room))]).install()
    for name in readers:  # what is loaded at first use is loaded now
        room.clear()
        case = draw(room, name, seed, -1)
        judge(room, case, watch)
        room.clear(case.owns)
    limit = _memory() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    print("ready", file=answers)
    for line in sys.stdin:
        name, number = json.loads(line)
        room.clear()
        case = draw(room, name, seed, number)
        verdict = judge(room, case, watch)
        print(json.dumps({**asdict(verdict), "words": case.words}), file=answers)
        if verdict.good:
            room.clear(case.owns)


def settings(room: Room) -> dict[str, str]:
    """The environment of whatever reads an input."""
    libraries = dict.fromkeys(("MPLCONFIGDIR", "TORCHINDUCTOR_CACHE_DIR"), str(caches(room)))
    return {"OMP_NUM_THREADS": "1", "FEWSET_TUNE": "0", **libraries}


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _processor_seconds(process: int) -> float:
    """What a process has used of the processor's time, in user and in system mode."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Worker:
    """Such a process, seen from the one that started it."""

    def __init__(self, room: Room, seed: int) -> None:
        self.room, self.seed = room, seed
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, name: str, number: int) -> tuple[Verdict, list[str]]:
        """Have an input read: the verdict, and the words of the command."""
        process = self._process or self._start()
        assert process.stdin is not None
        process.stdin.write(json.dumps([name, number]).encode() + b"\n")
        process.stdin.flush()
        line = self._answer()
        if line:
            answer: dict[str, Any] = json.loads(line)
            return Verdict(answer["kind"], answer["seconds"], answer["detail"]), answer["words"]
        alive = _still_runs(process)
        process.send_signal(signal.SIGABRT)  # where it is goes into the log
        process.wait()
        self.stop()
        kind = "hang" if alive else "crash"
        return Verdict(kind, SECONDS, f"ended with {process.returncode}\n{self._log()}"), []

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        self.log = tempfile.TemporaryFile()  # noqa: SIM115, it lives as long as the process
        environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            **settings(self.room),
        }
        words = [sys.executable, "-m", "tests.fuzz", "worker", str(self.room.root), "--seed", str(self.seed)]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, env=environment, cwd=ROOT
        )
        if self._answer(busy=10 * SECONDS) != b"ready\n":
            self.stop()
            raise RuntimeError(f"a worker did not start:\n{self._log()}")
        return self._process

    def _answer(self, busy: float = SECONDS) -> bytes:
        """The next line, or nothing if there is none in time.

        Seconds are waited for one by one: those in which both processes are stopped do not count.
        """
        assert self._process is not None
        assert self._process.stdout is not None
        used = _processor_seconds(self._process.pid)
        for _ in range(PATIENCE):
            if select.select([self._process.stdout], [], [], 1.0)[0]:
                return self._process.stdout.readline()
            if _processor_seconds(self._process.pid) >= used + busy:
                break
        return b""

    def _log(self) -> str:
        self.log.seek(max(0, self.log.seek(0, os.SEEK_END) - 4000))
        return self.log.read().decode(errors="replace")


def _still_runs(process: subprocess.Popen[bytes]) -> bool:
    """A process that ends closes its output a moment before it is gone."""
    try:
        process.wait(timeout=2)
    except subprocess.TimeoutExpired:
        return True
    return False
