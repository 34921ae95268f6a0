"""What must hold for every input: exit code 0, or one line and exit code 2; all other files as before."""

import io
import os
import sys
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.fuzz.case import Case, Ending
from tests.fuzz.room import Room

ACCEPTED, REJECTED = "accepted", "rejected"
_SHOWN = 4000
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


@dataclass(frozen=True)
class Verdict:
    """`kind` is accepted, rejected, or the kind of a defect, which `detail` describes."""

    kind: str
    seconds: float
    detail: str = ""
    words: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return self.kind in (ACCEPTED, REJECTED)


@dataclass
class Watch:
    """Sees, while on, which files a process opens to write, and the programs and connections it starts."""

    allowed: tuple[str, ...]
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
        place = Path(os.path.realpath(os.fsdecode(path)))
        parent = next(parent for parent in place.parents if parent.exists())
        # Below a file or a device, such as in /dev/zero/x, every change fails.
        if not str(place).startswith((*self.allowed, os.devnull)) and parent.is_dir():
            self.seen.append(f"{event} {place}")


def judge(room: Room, case: Case, watch: Watch) -> Verdict:
    """Run a case and look for defects."""
    before, given = room.snapshot(case.owns), room.partial_files()
    watch.seen.clear()
    begin = time.monotonic()
    watch.on = True
    try:
        ending = case.act() if case.act else run_command(case.words)
    finally:
        watch.on = False
        os.chdir(room.work)
    seconds = time.monotonic() - begin
    after = room.snapshot(case.owns)
    found = {
        **_defects(ending, case),
        "outside": watch.seen,
        "changed": sorted(path for path in {*before, *after} if before.get(path) != after.get(path)),
        "left over": sorted(room.partial_files() - given),
    }
    for kind, details in found.items():
        if details:
            said = "\n".join([*details[:20], f"exit code {ending.code}", ending.err[-_SHOWN:]])
            return Verdict(kind, seconds, said, case.words)
    return Verdict(REJECTED if ending.code else ACCEPTED, seconds, words=case.words)


def _defects(ending: Ending, case: Case) -> dict[str, list[str]]:
    """The kind of each defect in how a command ended, with details."""
    if "Traceback" in ending.err or "Traceback" in ending.out:
        return {"traceback": [ending.err.strip().rpartition("\n")[2]]}
    if ending.code not in (0, 2):
        return {"exit code": [str(ending.code)]}
    if ending.code == 0:
        return {"accepted, though damaged": [ending.out[-_SHOWN:]]} if case.must_reject else {}
    lines = [line for line in ending.err.splitlines() if not line.startswith("warning: ")]
    usage = bool(lines) and lines[0].startswith("Usage: ")  # written by typer, in a box
    one_line = len(lines) == 1 and lines[0].startswith("error: ") and len(lines[0]) >= 12
    return {} if usage or one_line else {"not one line": ["the message"]}


def run_command(words: tuple[str, ...]) -> Ending:
    """The command line in this process, to a terminal that takes UTF-8 and nothing else."""
    from fewset.cli.app import main

    files = io.BytesIO(), io.BytesIO()
    out, err = (io.TextIOWrapper(file, encoding="utf-8", write_through=True) for file in files)
    code: object = 0
    with patch.object(sys, "argv", ["fewset", *words]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as exit:
            code = exit.code
        except BaseException:
            traceback.print_exc(file=err)
            code = 1
    texts = [file.getvalue().decode(errors="replace") for file in files]
    return Ending(code if isinstance(code, int) else int(code is not None), *texts)
