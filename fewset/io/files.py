"""Files appear whole or not at all: written under a temporary name, then renamed. And their digests."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fewset.core.errors import UserError
from fewset.io.partial import clear_all, old_path, partial_path, remove
from fewset.io.reading import open_file, read_bytes, read_text, regular_file
from fewset.io.refusals import refused

_LONGEST_DIGEST = 2**16


def check_output(path: Path, inputs: Iterable[Path] = (), *, directory: bool = False) -> None:
    """Refuse, before the work, a file (or directory) that could not be written after it, or that is read."""
    if path.exists() and any(_is_same(path, read) for read in inputs):
        raise UserError(f"{path} is read and cannot be written too; choose another name")
    if directory and path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file, expected a directory; choose another name")
    if not directory and path.is_dir():
        raise UserError(f"{path} is a directory, expected a file; give the name of one in it")
    _refuse_special(path)
    if not path.absolute().parent.is_dir():
        raise UserError(f"there is no directory {path.parent} to write {path.name} into; make it first")


def check_apart(outputs: Mapping[str, Path | None]) -> None:
    """Refuse two outputs, by what each is, that are one file, however their paths are written."""
    places: dict[Path, str] = {}
    for what, path in outputs.items():
        if path is not None:
            other = places.setdefault(path.resolve(), what)
            if other != what:
                raise UserError(f"{other} and {what} are both {path}; choose two places")


def _is_same(path: Path, read: Path) -> bool:
    try:
        return path.samefile(read)
    except (OSError, ValueError):  # what is not there, or is no path at all
        return False


def _refuse_special(path: Path) -> None:
    """Refuse what must not be replaced by a file: a device, a pipe, a socket, and whatever lies in /dev."""
    special = path.exists() and not path.is_file() and not path.is_dir()
    if special or _nearest(path).resolve() == Path("/dev"):
        raise UserError(f"{path} is not a regular file, which alone can be replaced; choose another name")


def _make_parent(path: Path) -> None:
    """The directory of a path; nothing is tried under a file, which may be a link to a device."""
    if not _nearest(path).is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    path.parent.mkdir(parents=True, exist_ok=True)


def _nearest(path: Path) -> Path:
    """The last part of the way to a path that exists."""
    return next(parent for parent in path.absolute().parents if parent.exists())


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends without an error.

    What the system refuses is a user's error about `path`; what killed processes left there is removed.
    Others may read the file as they may any new one: safetensors would keep it for its owner alone.
    """
    with refused(path):
        _refuse_special(path)
        _make_parent(path)
        clear_all(path.parent)
        temporary = partial_path(path)
        try:
            temporary.touch()
            mode = temporary.stat().st_mode
            temporary.unlink()
            yield temporary
            temporary.chmod(mode)
            sync(temporary)
            temporary.replace(path)
            sync(path.parent)
        finally:
            with suppress(OSError):  # the directory itself may be gone
                temporary.unlink()


@contextmanager
def replacing_directory(path: Path) -> Iterator[Path]:
    """A temporary directory beside `path` that takes its place when the block ends without an error.

    Whoever is killed in between leaves the old one, which the next process puts back.
    """
    with refused(path):
        _refuse_special(path)
        _make_parent(path)
        clear_all(path.parent)
        temporary = partial_path(path)
        old = old_path(temporary)
        temporary.mkdir()
        try:
            yield temporary
            for file in temporary.rglob("*"):
                sync(file)
            sync(temporary)
            if os.path.lexists(path):  # a link to one goes, not what it leads to
                path.replace(old)
            temporary.replace(path)
            sync(path.parent)
        finally:  # Ctrl-C may come between any two of these lines
            with suppress(OSError):
                if os.path.lexists(old) and not os.path.lexists(path):
                    old.replace(path)
                remove(old)
            shutil.rmtree(temporary, ignore_errors=True)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on the disk."""
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # as some systems answer for a directory
            raise
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        # Names of files may be any bytes on Linux: what is no text is written as JSON escapes it.
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_bytes(path: Path, data: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_page(path: Path, text: str, command: str, *, check: bool = False) -> Path:
    """Write a page that a `command` makes from files; with `check` only refuse one that is not this text."""
    if not check:
        write_text(path, text)
    elif not path.exists() or read_text(path) != text:
        raise UserError(f"{path} is not what the files give; make it anew with `{command}`")
    return path


def page_beside(directory: Path) -> Path:
    """Where the page about the files of a directory is: under its name, beside it."""
    absolute = directory.absolute()
    if not absolute.name:
        raise UserError(f"{directory} has no name and nothing beside it; choose another directory")
    return absolute.with_name(f"{absolute.name}.md")


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def file_digest(path: Path) -> str:
    """The sha256 of a file, which binds a number to the weights or the images that made it."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def replacing_with_digest(path: Path) -> Iterator[Path]:
    """Like `replacing`, and the sha256 is written beside, for `check_digest`.

    Whoever is stopped in between leaves a file without its digest, never one with that of another.
    """
    beside = digest_path(path)
    with replacing(path) as temporary:
        yield temporary
        digest = file_digest(temporary)
        beside.unlink(missing_ok=True)
    write_text(beside, f"{digest}  {path.name}\n")


def digest_path(path: Path) -> Path:
    """Where the digest of a file is kept, as the program sha256sum writes and checks it."""
    return path.with_name(f"{path.name}.sha256")


def check_digest(path: Path) -> None:
    """Refuse a file that is not what was written; one without a digest beside it must only be regular."""
    beside = digest_path(regular_file(path))
    if os.path.lexists(beside) and read_bytes(beside, _LONGEST_DIGEST).split()[:1] != [
        file_digest(path).encode()
    ]:
        raise UserError(
            f"{path} is damaged: its sha256 is not the one in {beside.name}; make or get it anew, or remove "
            f"{beside.name} if you changed the file yourself"
        )
