"""Files appear whole or not at all: written under a temporary name, then renamed. And their digests."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fewset.core.errors import UserError
from fewset.io.os_errors import refused
from fewset.io.paths import HOST, TEMPORARY, partial_of, partial_path
from fewset.io.reading import open_file, read_bytes, read_text, regular_file

_LONGEST_DIGEST = 2**16
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how cells begin that a spreadsheet computes


# Checks before the work


def check_output(path: Path, inputs: Iterable[Path] = (), *, directory: bool = False) -> None:
    """Raise if a file (or directory) cannot be written after the work, or is one of its inputs."""
    if path.exists() and any(read.exists() and path.samefile(read) for read in inputs):
        raise UserError(f"{path} is read and cannot be written too; choose another name")
    if directory and path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file, expected a directory; choose another name")
    if not directory and path.is_dir():
        raise UserError(f"{path} is a directory, expected a file; give the name of one in it")
    _check_replaceable(path)
    if not path.absolute().parent.is_dir():
        raise UserError(f"there is no directory {path.parent} to write {path.name} into; make it first")


def check_apart(outputs: Mapping[str, Path | None]) -> None:
    """Raise if two outputs, by their option or name, are one file."""
    places: dict[Path, str] = {}
    for what, path in outputs.items():
        if path is not None:
            other = places.setdefault(path.resolve(), what)
            if other != what:
                raise UserError(f"{other} and {what} are both {path}; choose two places")


def _check_replaceable(path: Path) -> None:
    """Raise for a device, a pipe or a socket, for any place in /dev, and for one under a file."""
    nearest = next(parent for parent in path.absolute().parents if parent.exists())
    special = path.exists() and not path.is_file() and not path.is_dir()
    if special or nearest.resolve() == Path("/dev"):
        raise UserError(f"{path} is not a regular file, which alone can be replaced; choose another name")
    if not nearest.is_dir():
        raise UserError(f"{path}: a part of the path is a file; choose another place")


# Writing


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that replaces it when the block ends without an error.

    An error of the system becomes a user's error about `path`. The file gets the usual permissions:
    safetensors would let its owner alone read it.
    """
    with _temporary(path) as temporary:
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
    """A temporary directory beside `path` that replaces it when the block ends without an error.

    A process that is killed in between leaves the old one, which the next process puts back.
    """
    with _temporary(path) as temporary:
        old = temporary.with_suffix(".old")
        temporary.mkdir()
        try:
            yield temporary
            for file in temporary.rglob("*"):
                sync(file)
            sync(temporary)
            if os.path.lexists(path):  # a link itself is replaced, never its target
                path.replace(old)
            temporary.replace(path)
            sync(path.parent)
        finally:  # Ctrl-C may come between any two of these lines
            with suppress(OSError):
                if os.path.lexists(old) and not os.path.lexists(path):
                    old.replace(path)
                _remove(old)
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    with refused(path):
        _check_replaceable(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        clear_all(path.parent)
        yield partial_path(path)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on the disk."""
    if os.name == "nt" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        # Names of files may be any bytes on Linux; those that are no text are written as JSON escapes them.
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_bytes(path: Path, data: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_page(path: Path, text: str, command: str, *, check: bool = False) -> Path:
    """Write a page that a `command` makes from files; with `check` only raise if its text differs."""
    if not check:
        write_text(path, text)
    elif not path.exists() or read_text(path) != text:
        raise UserError(f"{path} does not match the files that it is made from; run `{command}` again")
    return path


def harmless(cell: Any) -> Any:
    """A cell of a CSV file that a spreadsheet shows instead of computing it."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


# Digests


def file_digest(path: Path) -> str:
    """The sha256 of a file."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def replacing_with_digest(path: Path) -> Iterator[Path]:
    """Like `replacing`, and write the sha256 beside the file, for `check_digest`.

    A stop in between leaves a file without a digest, never one with the digest of another.
    """
    beside = digest_path(path)
    with replacing(path) as temporary:
        yield temporary
        digest = file_digest(temporary)
        beside.unlink(missing_ok=True)
    write_text(beside, f"{digest}  {path.name}\n")


def digest_path(path: Path) -> Path:
    """Where the digest of a file is stored, as the program sha256sum writes and checks it."""
    return path.with_name(f"{path.name}.sha256")


def check_digest(path: Path) -> None:
    """Raise if a file does not match the digest beside it; without one it must only be a regular file."""
    beside = digest_path(regular_file(path))
    if not os.path.lexists(beside):
        return
    if read_bytes(beside, _LONGEST_DIGEST).split()[:1] != [file_digest(path).encode()]:
        raise UserError(
            f"{path} is damaged: its sha256 is not the one in {beside.name}; make or get it again, or remove "
            f"{beside.name} if you changed the file yourself"
        )


# What killed processes leave


def abandoned(directory: Path) -> list[Path]:
    """The temporary files that dead processes have left in a directory."""
    try:
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(".")]
    except OSError:  # not found, or no permission
        return []
    return sorted(directory / name for name in names if _is_abandoned(name))


def clear_all(*directories: Path) -> None:
    """Remove the temporary files that dead processes have left in directories.

    A directory that was moved away for a new one, which never came, is put back.
    """
    for directory in directories:
        for path in abandoned(directory):
            target = path.with_name(partial_of(path) or "")
            with suppress(OSError):  # another process may do the same
                if path.suffix == ".old" and not target.exists():
                    path.rename(target)
                else:
                    _remove(path)


def _remove(path: Path) -> None:
    """Remove a file, a directory with all in it, or a link, never its target."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _is_abandoned(name: str) -> bool:
    """Whether a dead process of this machine has left a file of this name."""
    found = TEMPORARY.fullmatch(name)
    if found is None or found["host"] != HOST or os.name == "nt":  # where signal 0 would end the process
        return False
    try:
        os.kill(int(found["process"]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    return False
