"""Paths: as users write them, as files record them, within a directory, and temporary."""

import os
import re
from hashlib import sha256
from itertools import count
from pathlib import Path
from platform import node

import fewset
from fewset.core.errors import UserError
from fewset.core.names import shortened


def user_path(path: str | Path) -> Path:
    """The path with "~" and "~ann" as the directories of these users."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise UserError(
            f"{shortened(str(path))} is in the directory of a user who has none here; write the path in full"
        ) from None


def recorded_path(path: str | Path, start: Path = Path()) -> str:
    """The path relative to `start`; in the user's home directory "~/photos", unless `start` is there too.

    Files are shared: their paths should not tell whose machine wrote them.
    """
    own = os.path.expanduser("~")  # noqa: PTH111, unlike Path.expanduser it never raises
    absolute, here, home = (Path(os.path.abspath(each)) for each in (path, start, own))  # noqa: PTH100
    if absolute.is_relative_to(home) and not here.is_relative_to(home):
        return (Path("~") / absolute.relative_to(home)).as_posix()
    try:
        return Path(os.path.relpath(absolute, here)).as_posix()
    except ValueError:  # on another drive
        return absolute.name


def without_machine(text: str) -> str:
    """The text, or its `recorded_path` if it is an absolute path."""
    return recorded_path(text) if Path(text).is_absolute() else text


def packaged_directory(name: str) -> Path:
    """A directory, such as "recipes": `_recipes` in an installed package, or beside it in a source tree."""
    package = Path(fewset.__file__).resolve().parent
    installed = package / f"_{name}"
    return installed if installed.is_dir() else package.parent / name


def inside(directory: Path, part: str | Path) -> Path:
    """The path of a part of a directory, or an error where a link on the way to it could lead elsewhere.

    The directory itself may be a link, since the user names it.
    """
    place = directory
    for name in Path(part).parts:
        place /= name
        if place.is_symlink():
            raise UserError(
                f"{place} is a link, which could lead out of {directory}; replace it by what it leads to"
            )
    return place


# Temporary names, which say which process writes the file: a file that a killed process left is recognised.


_NAMESPACE = Path("/proc/self/ns/pid")  # of process ids: containers on one host share its name, but not this
_HOST = f"{node()} {os.readlink(_NAMESPACE) if os.path.lexists(_NAMESPACE) else ''}"  # noqa: PTH115
HOST = sha256(_HOST.encode()).hexdigest()[:6]
"""This machine or container: others may write into the same directory."""

TEMPORARY = re.compile(r"\.(?P<of>[^/]+)\.(?P<host>[0-9a-f]{6})-(?P<process>\d+)-\d+\.(?:partial|old)")
_counter = count()  # threads of one process may write the same file


def partial_path(path: Path) -> Path:
    """A temporary name beside `path` to write to."""
    return path.with_name(f".{path.name}.{HOST}-{os.getpid()}-{next(_counter)}.partial")


def partial_of(path: Path) -> str | None:
    """The final name of a temporary file, None for any other file."""
    name = TEMPORARY.fullmatch(path.name)
    return name["of"] if name else None
