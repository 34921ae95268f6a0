"""Many inputs: all readers in turns, on several processes, for a given time; and one input again."""

import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.fuzz.case import load_readers
from tests.fuzz.judge import ACCEPTED, REJECTED, Verdict
from tests.fuzz.page import made_by
from tests.fuzz.room import Room, build_room
from tests.fuzz.worker import MEMORY, SECONDS, Worker

_TURN = 1.0  # seconds that a reader has before the next one


def run(minutes: float, *, processes: int, seed: int, first: int, failures: Path) -> dict[str, Any]:
    """All readers in turns; each begins with its input `first`. Returns the record."""
    names = load_readers()
    record = {**made_by(), "seed": seed, "first": first, "processes": processes}
    found: dict[str, list[Verdict]] = {name: [] for name in names}

    def work(number: int) -> None:
        """Read every input whose index is `first + number` and a multiple of `processes`."""
        worker, begin = Worker(rooms[number], seed), number * len(names) // processes
        indices = dict.fromkeys(names, first + number)
        while time.monotonic() < end:
            for name in names[begin:] + names[:begin]:
                until = min(end, time.monotonic() + _TURN)
                while time.monotonic() < until:
                    verdict = worker.read(name, indices[name])
                    found[name].append(verdict)
                    if not verdict.good:
                        _keep(
                            failures / f"{name.replace(' ', '-')}-{seed}-{indices[name]}",
                            verdict,
                            worker.room,
                        )
                    indices[name] += processes
        worker.stop()

    with tempfile.TemporaryDirectory(prefix="fewset-fuzz-") as folder:
        rooms = [build_room(Path(folder).resolve() / "0")]
        for number in range(1, processes):
            place = rooms[0].root.with_name(str(number))
            rooms.append(Room(Path(shutil.copytree(rooms[0].root, place, symlinks=True))))
        begin = time.monotonic()
        end = begin + 60 * minutes
        with ThreadPoolExecutor(processes) as pool:
            list(pool.map(work, range(processes)))
    limits = {"limit_seconds": SECONDS, "limit_bytes": MEMORY}
    readers = {name: _counts(verdicts) for name, verdicts in found.items()}
    return {**record, "minutes": round((time.monotonic() - begin) / 60, 1), **limits, "readers": readers}


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
