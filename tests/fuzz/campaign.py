"""Many inputs: all readers in turns, on several processes, for a given time; and one input again."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from tests.fuzz.case import draw, load_readers
from tests.fuzz.invariant import ACCEPTED, REFUSED, Verdict, Watch, caches, judge
from tests.fuzz.records import FuzzRecord, Outcomes, origin
from tests.fuzz.room import Room, build_room, copy_room
from tests.fuzz.worker import MEMORY, SECONDS, Worker, settings

_TURN = 1.0  # seconds that a reader has before the next one


@dataclass
class Campaign:
    """What is done and found. Threads share it, each with a worker of its own."""

    seed: int
    failures: Path
    next_number: dict[str, int]
    kinds: dict[str, Counter[str]] = field(default_factory=dict)
    slowest: dict[str, float] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def take(self, name: str) -> int:
        with self.lock:
            self.next_number[name] += 1
            return self.next_number[name] - 1

    def note(self, name: str, number: int, verdict: Verdict, words: list[str], room: Room) -> None:
        with self.lock:
            self.kinds.setdefault(name, Counter())[verdict.kind] += 1
            self.slowest[name] = max(self.slowest.get(name, 0.0), verdict.seconds)
            if not verdict.good:
                self._keep(name, number, verdict, words, room)

    def _keep(self, name: str, number: int, verdict: Verdict, words: list[str], room: Room) -> None:
        """Save the input, what was said of it, and how it is made again."""
        folder = self.failures / f"{name.replace(' ', '-')}-{self.seed}-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        again = f'python -m tests.fuzz replay "{name}" {number} --seed {self.seed}'
        text = f"{verdict.kind}: {verdict.detail}\nagain: {again}\nfewset {words!r}\n"
        (folder / "verdict.txt").write_text(text, encoding="utf-8", errors="backslashreplace")
        # cp copies pipes and links as what they are.
        subprocess.run(["cp", "-a", room.work, folder / "work"], check=False)
        first = verdict.detail.partition("\n")[0]
        print(f"{name} {number}: {verdict.kind}: {first}; {again}", file=sys.stderr, flush=True)

    def outcomes(self) -> dict[str, Outcomes]:
        return {
            name: Outcomes(
                accepted=kinds[ACCEPTED],
                refused=kinds[REFUSED],
                wrong={kind: count for kind, count in kinds.items() if kind not in (ACCEPTED, REFUSED)},
                slowest_seconds=round(self.slowest[name], 2),
            )
            for name, kinds in sorted(self.kinds.items())
        }


def run(
    minutes: float,
    *,
    processes: int | None = None,
    seed: int = 0,
    first: int = 1,
    only: Sequence[str] = (),
    failures: Path = Path("fuzz-failures"),
) -> FuzzRecord:
    """All readers, or `only` some, in turns; each begins with its input number `first`."""
    made_by = origin()
    names = list(only or load_readers())
    campaign = Campaign(seed, failures, dict.fromkeys(names, first))
    count = processes or os.cpu_count() or 1
    with rooms(count) as made:
        begin = time.monotonic()
        end = begin + 60 * minutes

        def work(number: int) -> None:
            worker = Worker(made[number], seed)
            start = number * len(names) // count
            try:
                while time.monotonic() < end:
                    for name in names[start:] + names[:start]:
                        _turn(campaign, worker, name, end)
            finally:
                worker.stop()

        with ThreadPoolExecutor(count) as pool:
            list(pool.map(work, range(count)))
    return FuzzRecord(
        **made_by,
        seed=seed,
        first=first,
        processes=count,
        minutes=round((time.monotonic() - begin) / 60, 1),
        limit_seconds=SECONDS,
        limit_bytes=MEMORY,
        readers=campaign.outcomes(),
    )


def _turn(campaign: Campaign, worker: Worker, name: str, end: float) -> None:
    until = min(end, time.monotonic() + _TURN)
    while time.monotonic() < until:
        number = campaign.take(name)
        campaign.note(name, number, *worker.read(name, number), worker.room)


@contextmanager
def rooms(count: int) -> Iterator[list[Room]]:
    """So many rooms with the same content, for as many workers."""
    with tempfile.TemporaryDirectory(prefix="fewset-fuzz-") as folder:
        first = build_room(Path(folder) / "0")
        yield [first, *(copy_room(first, Path(folder) / str(number)) for number in range(1, count))]


def replay(name: str, number: int, seed: int) -> None:
    """One input again, in this process; its room is kept to be looked at."""
    load_readers()
    root = Path(tempfile.mkdtemp(prefix="fewset-fuzz-")).resolve() / "0"
    os.environ |= settings(Room(root))
    room = build_room(root)
    room.enter()
    watch = Watch([str(room.root), str(caches(room))]).install()
    case = draw(room, name, seed, number)
    print(f"in {room.work}: fewset {case.words!r}")
    verdict = judge(room, case, watch)
    print(f"{verdict.kind} in {verdict.seconds:.2f} s\n{verdict.detail}")
