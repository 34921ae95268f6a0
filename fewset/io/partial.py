"""Files and directories that are being written: temporary names that say which process writes them.

What a process leaves that was killed is therefore known, and is removed by the next one that comes there.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import count
from pathlib import Path
from platform import node


def _namespace() -> str:
    """What the numbers of processes belong to: containers on one host may share its name, but not these."""
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115, it is no path
    except OSError:  # not on Linux
        return ""


# Processes of other machines and containers may share a directory.
_HOST = sha256(f"{node()} {_namespace()}".encode()).hexdigest()[:6]
_NUMBERS = count()  # threads of one process may write the same file
_NAME = re.compile(r"\.(?P<of>.+)\.(?P<host>[0-9a-f]{6})-(?P<process>\d+)-\d+\.(?P<kind>partial|old)")


def partial_path(path: Path) -> Path:
    """A name beside `path` to write to."""
    return path.with_name(f".{path.name}.{_HOST}-{os.getpid()}-{next(_NUMBERS)}.partial")


def old_path(partial: Path) -> Path:
    """Where the directory is put that a partial one takes the place of."""
    return partial.with_suffix(".old")


def partial_of(path: Path) -> str | None:
    """The name of what a partial file will be, None for any other file."""
    name = _NAME.fullmatch(path.name)
    return name["of"] if name else None


def abandoned(directory: Path) -> list[Path]:
    """What dead processes have left in a directory."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(".")]
    except OSError:  # there is none, or it is not for us
        return []
    return sorted(directory / name for name in names if _is_abandoned(name))


def clear(directories: Iterable[Path]) -> Iterator[tuple[Path, int]]:
    """Remove what dead processes have left in directories; each path that is gone, and how many bytes it had.

    A directory that was moved out of the way of a new one, which never came, is put back.
    """
    for directory in directories:
        for path in abandoned(directory):
            target = path.with_name(partial_of(path) or "")
            with suppress(OSError):  # another process may do the same
                size = sum(file.lstat().st_size for file in (path, *path.rglob("*")))
                if path.suffix == ".old" and not target.exists():
                    path.rename(target)
                else:
                    remove(path)
                yield path, size


def remove(path: Path) -> None:
    """Remove a file, a directory with all in it, or a link, never what it leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def clear_all(*directories: Path) -> None:
    """Remove what dead processes have left in directories."""
    for _ in clear(directories):
        pass


def _is_abandoned(name: str) -> bool:
    found = _NAME.fullmatch(name)
    return found is not None and found["host"] == _HOST and not _is_alive(int(found["process"]))


def _is_alive(process: int) -> bool:
    if os.name == "nt":  # where the question itself would end the process
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True
