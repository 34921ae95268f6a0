"""Files appear whole or not at all: written under a temporary name, then renamed. And their digests."""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fewset.runtime.errors import UserError

_LONGEST_NAME = 200


def checked_name(name: str, what: str) -> str:
    """A name that comes from a file and is to become part of a path: as it is, or an error.

    Refused are separators, "..", drive letters, control characters, and names that are too long.
    """
    plain = re.fullmatch(r"\w[\w .+=,@-]*", name) and len(name.encode()) <= _LONGEST_NAME
    if not plain or name.endswith((".", " ")):
        raise UserError(
            f"{name!r} cannot be the name of a {what}: expected letters, digits, '-', '_' and '.', at most "
            f"{_LONGEST_NAME} bytes, the first a letter or a digit"
        )
    return name


def one_line(name: str) -> str:
    """A name as it can be shown on one line: what cannot be printed is a question mark."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def check_output(path: Path, inputs: Iterable[Path] = (), *, directory: bool = False) -> None:
    """Refuse, before the work, a file (or directory) that could not be written after it, or that is read."""
    for read in inputs:
        if read.resolve() == path.resolve():
            raise UserError(f"{path} is read and cannot be written too; choose another name")
    if directory and path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file, expected a directory; choose another name")
    if not directory and path.is_dir():
        raise UserError(f"{path} is a directory, expected a file; give the name of one in it")
    if not path.absolute().parent.is_dir():
        raise UserError(f"there is no directory {path.parent} to write {path.name} into; make it first")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_directory(path: Path) -> Iterator[Path]:
    """A temporary directory beside `path` that takes its place when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent))
    try:
        yield temporary
        temporary.chmod(0o755)  # mkdtemp makes it private
        old = temporary.with_suffix(".old")
        if path.exists():
            path.replace(old)
        temporary.replace(path)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, data: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_page(path: Path, text: str, command: str, *, check: bool = False) -> Path:
    """Write a page that a `command` makes from files; with `check` only refuse one that is not this text."""
    if not check:
        write_text(path, text)
    elif not path.exists() or path.read_text(encoding="utf-8") != text:
        raise UserError(f"{path} is not what the files give; make it anew with `{command}`")
    return path


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def file_digest(path: Path) -> str:
    """The sha256 of a file, which binds a number to the weights or the images that made it."""
    with path.open("rb") as file:
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
    """Refuse a file that is not what was written; one without a digest beside it is not checked."""
    beside = digest_path(path)
    if beside.is_file() and beside.read_bytes().split()[:1] != [file_digest(path).encode()]:
        raise UserError(
            f"{path} is damaged: its sha256 is not the one in {beside.name}; make or get it anew, or remove "
            f"{beside.name} if you changed the file yourself"
        )
