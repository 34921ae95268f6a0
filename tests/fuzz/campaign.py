"""Many inputs: all readers in turns, on several processes, for a given time; and one input again.

Each process reads one input after another, under limits of memory and time.
"""

import faulthandler
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.fuzz.case import draw, load_readers
from tests.fuzz.judge import ACCEPTED, REJECTED, Verdict, Watch, judge
from tests.fuzz.page import made_by
from tests.fuzz.room import Room, build_room

FAILURES = Path("fuzz-failures")
"""Where inputs that show a defect are saved."""
MEMORY = 2**31
"""Bytes that an input may take beside what the process has after its first commands."""
SECONDS = 30
"""Of the processor's time that an input may take."""
PATIENCE = 240
"""Seconds that an input may take on a machine that is busy with other things, or when it only waits."""
_TURN = 1.0  # seconds that a reader has before the next one


def _serve(room: Room, seed: int, pipe: Connection) -> None:
    """Read inputs until there are no more."""
    faulthandler.enable()
    faulthandler.register(signal.SIGXCPU, chain=True)  # the processor's time is used up
    log = os.open(room.log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    room.enter()
    watch = Watch((str(room.root), str(room.caches))).install()

    def read(name: str, index: int) -> Verdict:
        room.clear()
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + SECONDS, resource.RLIM_INFINITY))
        case = draw(room, name, seed, index)
        verdict = judge(room, case, watch)
        if verdict.good:
            room.clear(case.owns)
        return verdict

    for name in load_readers():  # what is loaded at first use is loaded now
        read(name, -1)
    limit = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    pipe.send("ready")
    while True:
        pipe.send(read(*pipe.recv()))


class Worker:
    """The calling end of such a process."""

    def __init__(self, room: Room, seed: int) -> None:
        self.room, self.seed = room, seed
        self._process: multiprocessing.process.BaseProcess | None = None

    def read(self, name: str, index: int) -> Verdict:
        """Let the process read an input."""
        if self._process is None:
            self._start()
        self._pipe.send((name, index))
        answer = self._answer()
        return answer if isinstance(answer, Verdict) else Verdict("crash or hang", SECONDS, self._end())

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def _start(self) -> None:
        # They belong to the process, and libraries read them when they are imported.
        caches = dict.fromkeys(("MPLCONFIGDIR", "TORCHINDUCTOR_CACHE_DIR"), str(self.room.caches))
        os.environ |= {"OMP_NUM_THREADS": "1", "FEWSET_TUNE": "0", "PYTHONDONTWRITEBYTECODE": "1", **caches}
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(self.room, self.seed, theirs), daemon=True)
        self._process.start()
        theirs.close()
        if self._answer() != "ready":
            raise RuntimeError(f"a worker did not start:\n{self._end()}")

    def _answer(self) -> Verdict | str | None:
        """The process' answer; None if it ends, or takes too long."""
        try:
            return self._pipe.recv() if self._pipe.poll(PATIENCE) else None
        except (EOFError, ConnectionError):
            return None

    def _end(self) -> str:
        """End the process, so that faulthandler writes its stack to the log. Returns the end of the log."""
        assert self._process is not None
        if self._process.is_alive():
            os.kill(self._process.pid or 0, signal.SIGABRT)
        self._process.join()
        self._process = None
        return self.room.log.read_text(errors="replace")[-4000:]


def run(minutes: float, processes: int, seed: int) -> dict[str, Any]:
    """All readers in turns, each with its inputs from 1 on. Returns the record."""
    names = load_readers()
    record = {**made_by(), "seed": seed, "processes": processes}
    found: dict[str, list[Verdict]] = {name: [] for name in names}

    def work(number: int) -> None:
        """Read the inputs of process `number`: every `processes`-th one."""
        worker, begin = Worker(rooms[number], seed), number * len(names) // processes
        indices = dict.fromkeys(names, 1 + number)
        while time.monotonic() < end:
            for name in names[begin:] + names[:begin]:
                until = min(end, time.monotonic() + _TURN)
                while time.monotonic() < until:
                    verdict = worker.read(name, indices[name])
                    found[name].append(verdict)
                    if not verdict.good:
                        place = f"{name.replace(' ', '-')}-{seed}-{indices[name]}"
                        _keep(FAILURES / place, verdict, worker.room)
                    indices[name] += processes
        worker.stop()

    with tempfile.TemporaryDirectory(prefix="fewset-fuzz-") as folder:
        first = build_room(Path(folder).resolve() / "0")
        places = [first.root.with_name(str(number)) for number in range(1, processes)]
        rooms = [first, *(Room(shutil.copytree(first.root, place, symlinks=True)) for place in places)]
        begin = time.monotonic()
        end = begin + 60 * minutes
        with ThreadPoolExecutor(processes) as pool:
            list(pool.map(work, range(processes)))
    readers = {name: _counts(verdicts) for name, verdicts in found.items()}
    return {**record, "minutes": round((time.monotonic() - begin) / 60, 1), "readers": readers}


def _counts(verdicts: list[Verdict]) -> dict[str, Any]:
    kinds = Counter(verdict.kind for verdict in verdicts)
    good = {kind: kinds.pop(kind, 0) for kind in (ACCEPTED, REJECTED)}
    slowest = max((verdict.seconds for verdict in verdicts), default=0.0)
    return {**good, "wrong": dict(kinds), "slowest_seconds": round(slowest, 2)}


def _keep(folder: Path, verdict: Verdict, room: Room) -> None:
    """Save the input with the verdict. `replay` makes it again, by the reader, seed and index in the name."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    text = f"{verdict.kind}: {verdict.detail}\nfewset {verdict.words!r}\n"
    (folder / "verdict.txt").write_text(text, encoding="utf-8", errors="backslashreplace")
    subprocess.run(["cp", "-a", room.work, folder / "work"], check=False)  # pipes and links as they are
    print(f"{folder}: {verdict.kind}: {verdict.detail.partition(chr(10))[0]}", file=sys.stderr, flush=True)


def replay(name: str, index: int, seed: int) -> None:
    """Read one input again; its room stays."""
    room = build_room(Path(tempfile.mkdtemp(prefix="fewset-fuzz-")).resolve() / "0")
    worker = Worker(room, seed)
    verdict = worker.read(name, index)
    worker.stop()
    print(f"in {room.work}: fewset {verdict.words!r}")
    print(f"{verdict.kind} in {verdict.seconds:.2f} s\n{verdict.detail}")
