"""What must hold whatever is read: exit code 0, or one line and exit code 2; everything beside as before."""

import io
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.case import GENERATED, Case, Ending
from tests.fuzz.room import Room

ACCEPTED, REFUSED = "accepted", "refused"
_SHOWN = 4000


@dataclass(frozen=True)
class Verdict:
    """`kind` is accepted, refused, or what is wrong; `detail` then says more."""

    kind: str
    seconds: float
    detail: str = ""

    @property
    def good(self) -> bool:
        return self.kind in (ACCEPTED, REFUSED)


@dataclass
class Watch:
    """Sees, while on, what a process does to the world: files opened to write, programs, connections."""

    allowed: list[str]
    seen: list[str] = field(default_factory=list)
    on: bool = False

    def install(self) -> "Watch":
        sys.addaudithook(self._see)
        return self

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "open":
            path, mode, flags = arguments
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) if isinstance(flags, int) else "w" in mode
            if writes and not isinstance(path, int):
                self._check(event, path)
        elif event in _CHANGES:
            relative = event != "os.truncate" and isinstance(arguments[-1], int) and arguments[-1] >= 0
            for path in () if relative else arguments[: _CHANGES[event]]:  # a name in an opened directory
                self._check(event, path)
        elif event in _PROGRAMS and str(arguments[0]) not in _KNOWN_PROGRAMS:
            self.seen.append(f"{event} {arguments!r}"[:_SHOWN])

    def _check(self, event: str, path: Any) -> None:
        place = os.path.realpath(os.fsdecode(path))
        if not place.startswith((*self.allowed, os.devnull)) and _can_hold_a_file(Path(place).parents):
            self.seen.append(f"{event} {place}")


def _can_hold_a_file(parents: Sequence[Path]) -> bool:
    """Below a file or a device, such as in /dev/zero/x, every change fails."""
    return next(parent for parent in parents if parent.exists()).is_dir()


# The events of sys.audit that change files, with the number of paths that come first.
_CHANGES = {
    "os.mkdir": 1, "os.remove": 1, "os.rename": 2, "os.rmdir": 1, "os.link": 2, "os.symlink": 0,
    "os.truncate": 1, "os.utime": 1, "shutil.rmtree": 1,
}  # fmt: skip
_PROGRAMS = (
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.startfile", "webbrowser.open",
    "socket.connect",
)  # fmt: skip
_KNOWN_PROGRAMS = "git", "fc-list"  # the commit of a record; the fonts of matplotlib


def judge(room: Room, case: Case, watch: Watch) -> Verdict:
    """Run a case and say what is wrong."""
    owned = (*case.owns, *GENERATED)
    before, given = room.snapshot(owned), set(room.work.rglob("*.partial"))
    watch.seen.clear()
    begin = time.monotonic()
    watch.on = True
    try:
        ending = case.act() if case.act else run_command(case.words)
    finally:
        watch.on = False
        os.chdir(room.work)
    seconds = time.monotonic() - begin
    problem = _problem(ending, case)
    if problem is None and watch.seen:
        problem = "outside", "\n".join(watch.seen[:20])
    after = room.snapshot(owned)
    if problem is None and after != before:
        changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
        problem = "changed", "\n".join(changed[:20])
    if problem is None and (left := set(room.work.rglob("*.partial")) - given):
        problem = "left over", "\n".join(sorted(map(str, left))[:20])
    if problem is None:
        return Verdict(REFUSED if ending.code else ACCEPTED, seconds)
    kind, detail = problem
    return Verdict(kind, seconds, f"{detail}\nexit code {ending.code}\n{ending.err[-_SHOWN:]}")


def _problem(ending: Ending, case: Case) -> tuple[str, str] | None:
    if "Traceback" in ending.err or "Traceback" in ending.out:
        return "traceback", place_of(ending.err)
    if ending.code == 0:
        return ("accepted, though damaged", ending.out[-_SHOWN:]) if case.only_refusal else None
    if ending.code != 2:
        return "exit code", str(ending.code)
    lines = [line for line in ending.err.splitlines() if not line.startswith("warning: ")]
    usage = bool(lines) and lines[0].startswith("Usage: ")  # written by typer, in a box
    if not usage and (len(lines) != 1 or not lines[0].startswith("error: ") or len(lines[0]) < 12):
        return "not one line", ""
    return None


def place_of(text: str) -> str:
    """The exception and the line of fewset that raised it, by which equal defects are known."""
    lines = text.splitlines()
    frames = [line.strip() for line in lines if line.startswith("  File ") and "/fewset/" in line]
    errors = [line for line in lines if line[:1].isalpha() and ("Error" in line or "Exception" in line)]
    name = errors[-1].partition(":")[0] if errors else "?"
    return f"{name} at {frames[-1].rpartition('/fewset/')[2] if frames else '?'}"


def run_command(words: tuple[str, ...]) -> Ending:
    """The command line in this process, to a terminal that takes UTF-8 and nothing else."""
    from fewset.cli.app import main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    code: object = 0
    with _arguments(words), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as exit:
            code = exit.code
        except BaseException:
            traceback.print_exc(file=err)
            code = 1
    texts = [stream.buffer.getvalue().decode(errors="replace") for stream in (out, err)]  # type: ignore[attr-defined]
    return Ending(code if isinstance(code, int) else int(code is not None), *texts)


@contextmanager
def _arguments(words: tuple[str, ...]) -> Iterator[None]:
    old = sys.argv
    sys.argv = ["fewset", *words]
    try:
        yield
    finally:
        sys.argv = old


def caches(room: Room) -> Path:
    """Where libraries may keep caches of their own, beside the room."""
    return room.root.with_name(f"{room.root.name}-caches")
