"""Paths as files record them: files are handed on, and need not tell whose machine it was."""

import os
from pathlib import Path

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
    """The path from where the command runs, or from `start`; what is in the user's own directory, from there.

    ("~/photos", unless `start` is in that directory too.)
    """
    own = os.path.expanduser("~")  # noqa: PTH111, a user without a directory has none to be named
    absolute, here, home = (Path(os.path.abspath(each)) for each in (path, start, own))  # noqa: PTH100
    if absolute.is_relative_to(home) and not here.is_relative_to(home):
        return (Path("~") / absolute.relative_to(home)).as_posix()
    try:
        return Path(os.path.relpath(absolute, here)).as_posix()
    except ValueError:  # on another drive
        return absolute.name


def without_machine(text: str) -> str:
    """A text as it is, unless it is an absolute path."""
    return recorded_path(text) if Path(text).is_absolute() else text
