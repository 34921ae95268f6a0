"""What image sets and tables of features have in common: a directory of arrays with a manifest.

The manifest holds size and digest of each file and a digest of the content as a whole. It is written last
(`Layout.seal`) and checked at each opening (`Layout.read`); what does not fit is refused with the command
that makes it anew.
"""

import hashlib
import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from platformdirs import user_data_path

from fewset import __version__
from fewset.core.errors import UserError, unknown_name
from fewset.core.names import plain_name, shortened
from fewset.core.parsing import parse
from fewset.io.files import clear_all, file_digest, write_json
from fewset.io.paths import recorded_path, user_path
from fewset.io.reading import read_json

Manifest = dict[str, Any]
_T = TypeVar("_T")
_TRIES = 5

# Files up to this size are read and compared with their digest at each opening; it takes milliseconds.
_SMALL = 2**24


def home() -> Path:
    """Where fewset keeps its data: `$FEWSET_HOME`, or the user's data directory of the platform."""
    chosen = os.environ.get("FEWSET_HOME")
    if chosen:
        place = user_path(chosen)
        if os.path.exists(place) and not os.path.isdir(place):  # noqa: PTH110, PTH112, also where none may look
            raise UserError(f"FEWSET_HOME is {shortened(chosen)}, which is a file; set it to a directory")
        return place
    try:
        return user_path(user_data_path("fewset", appauthor=False))
    except RuntimeError:
        raise UserError(
            "this user has no directory: set FEWSET_HOME to a directory to keep image sets in"
        ) from None


def import_command(kind: str, source: Path, name: str, **options: object) -> str:
    """The command line that imports a source; options that are None, False or 0 are left out."""
    words = ["fewset", "data", "import", kind, recorded_path(source), "--name", name]
    for option, value in options.items():
        if value:
            words += [f"--{option.replace('_', '-')}", *([] if value is True else [str(value)])]
    return shlex.join(words)


@dataclass(frozen=True)
class Origin:
    """Where a set or table came from: in words that name no machine, and a key that tells it from others."""

    words: str
    key: str = ""

    @classmethod
    def of(cls, path: Path, before: str = "") -> "Origin":
        """That of a directory or file, after a word that says what it is."""
        return cls(before + recorded_path(path), sha256_of(before + str(path.absolute())))

    def is_that_of(self, manifest: Manifest) -> bool:
        """Whether a set or table came from here."""
        there = manifest.get("source_key")  # which earlier versions did not write
        return there == self.key if there and self.key else bool(manifest["source"] == self.words)

    @classmethod
    def in_manifest(cls, manifest: Manifest) -> "Origin":
        return cls(manifest["source"], manifest.get("source_key", ""))


def unchanged_while_read(path: Path, read: Callable[[Path], _T]) -> _T:
    """What `read` makes of a directory: all of it from one and the same, though others may replace it."""
    for _ in range(_TRIES):
        before = _identity(path)
        try:
            found = read(path)
        except (OSError, UserError):
            if _identity(path) == before:
                raise
        else:
            if _identity(path) == before:
                return found
    raise UserError(f"{path} is being replaced again and again; come back when that is done")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


@dataclass(frozen=True)
class SealedFile:
    """What the manifest says of a file."""

    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class ManifestFields:
    """What every manifest holds. An optional field is one that earlier versions did not write."""

    format: int
    name: str
    source: str
    source_key: str = ""
    command: str | None = None
    created_by: str
    written: float
    digest: str


@dataclass(frozen=True)
class Layout:
    """A kind of directory: what messages call it, where it is at home, its format, how it is made again."""

    what: str
    folder: str
    format: int
    content: tuple[str, ...]
    """The keys of the manifest that the digest covers. Name, place and time are not content."""
    fields: type[ManifestFields]
    """All keys of the manifest, and their types."""
    kind: str = "KIND"
    """As in `fewset data import KIND SOURCE`."""
    generated: tuple[str, ...] = ()
    """Names of those that need no import: they are made by code when they are first opened."""

    def path(self, name: str) -> Path:
        """Where the one called `name` is or will be."""
        if not re.fullmatch(r"\w[\w.-]{0,99}", name):
            raise UserError(
                f"{shortened(name)!r} cannot be the name of an image set or a table: expected letters, "
                "digits, '-', '_' and '.', at most 100, the first a letter or a digit; choose another name"
            )
        return home() / self.folder / plain_name(name, f"the {self.what}")

    def names(self) -> list[str]:
        """The names of those at home."""
        clear_all(home() / self.folder)
        manifests = (home() / self.folder).glob("[!.]*/manifest.json")
        return sorted(manifest.parent.name for manifest in manifests)

    def available(self) -> set[str]:
        """The names of those at home and of those that need no import."""
        return {*self.names(), *self.generated}

    def find(self, name: str | Path) -> Path:
        """The directory of that name, or at that path (anything with a path separator).

        It is there, unless the name is that of a generated one.
        """
        command = f"fewset data import {self.kind} SOURCE --name"
        if isinstance(name, Path) or "/" in name or os.sep in name:
            path = user_path(name)
            if not (path / "manifest.json").is_file():
                raise UserError(
                    f"no {self.what} at {shortened(str(name))}: expected a directory with a manifest.json; "
                    f"import one: {command} NAME"
                )
            return path
        path = self.path(name)
        if not path.exists():
            clear_all(path.parent)  # a killed process may have left it beside its place
        if not path.exists() and name not in self.generated:
            missing = unknown_name(self.what, name, self.available())
            raise UserError(f"{missing} Import it: {command} {name}")
        return path

    def seal(self, directory: Path, files: tuple[str, ...], manifest: Manifest) -> str:
        """Write the manifest of finished files, with their sizes and digests; returns the digest of all."""
        # Whole seconds: kept by every file system and archive, and hardly the date of a later change.
        written = int(time.time())
        for file in files:
            os.utime(directory / file, (written, written))
        sealed = {
            "format": self.format,
            **manifest,
            "created_by": f"fewset {__version__}",
            "written": written,
            "files": {
                file: {"bytes": (directory / file).stat().st_size, "sha256": file_digest(directory / file)}
                for file in files
            },
        }
        digest = self._digest(sealed)
        write_json(directory / "manifest.json", {**sealed, "digest": digest})
        return digest

    def read(self, path: Path) -> Manifest:
        """The manifest of a directory whose files are as they were written, or an error."""
        try:
            manifest: Manifest = read_json(path / "manifest.json")
            version = manifest["format"]
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise self.damaged(path, f"its manifest.json cannot be read ({error!r})") from error
        if version != self.format:
            raise self.damaged(
                path, f"it has format {version!r}, and this fewset reads format {self.format}", manifest
            )
        complete = all(key in manifest for key in (*self.content, "written", "digest"))
        if not complete or manifest["digest"] != self._digest(manifest):
            raise self.damaged(path, "its manifest.json was edited, or is of another kind", manifest)
        try:
            parse(self.fields, manifest, what="manifest")
        except UserError as error:
            raise self.damaged(path, f"its manifest.json was edited ({error})", manifest) from None
        for file, expected in manifest["files"].items():
            try:
                found = (path / file).stat()
            except OSError as error:
                raise self.damaged(path, f"{file} is missing", manifest) from error
            if found.st_size != expected["bytes"]:
                raise self.damaged(
                    path, f"{file} has {found.st_size} bytes, expected {expected['bytes']}", manifest
                )
            # A large file is read as a whole only if it was touched since, or copied without its date.
            doubtful = found.st_size <= _SMALL or found.st_mtime != manifest["written"]
            if doubtful and file_digest(path / file) != expected["sha256"]:
                raise self.damaged(path, f"{file} was edited", manifest)
        return manifest

    def verify(self, path: Path, manifest: Manifest) -> None:
        """Read every byte and compare with the digest; opening trusts a large file of the right date."""
        for file, expected in manifest["files"].items():
            if file_digest(path / file) != expected["sha256"]:
                raise self.damaged(path, f"{file} was edited", manifest)

    def refuse_other_source(self, path: Path, origin: Origin) -> None:
        """An import may make anew what came from the same source, or is damaged; nothing else."""
        if not (path / "manifest.json").exists():
            return
        try:
            manifest = self.read(path)
        except UserError:
            return
        if not origin.is_that_of(manifest):
            raise UserError(
                f"the {self.what} {path.name!r} exists and came from {manifest['source']!r}; choose another "
                "name with --name, or replace it with --force"
            )

    def check_space(self, path: Path, needed: int) -> None:
        """A full disk under a memory map ends the process without a word, so look first."""
        place = next(parent for parent in path.absolute().parents if parent.exists())
        free = shutil.disk_usage(place).free
        if free < needed:
            raise UserError(
                f"the {self.what} needs {needed / 1e6:,.0f} MB, but {place} has {free / 1e6:,.0f} MB free; "
                "make room, or set FEWSET_HOME to a directory on another disk"
            )

    def damaged(self, path: Path, problem: str, manifest: object = None) -> UserError:
        command = manifest.get("command") if isinstance(manifest, dict) else None
        if path.name in self.generated:
            remedy = f"remove {path}, and it is generated again when it is next used"
        else:
            again = command or f"fewset data import {self.kind} SOURCE --name {path.name}"
            remedy = f"import it again: {again}"
        return UserError(f"the {self.what} {path} cannot be used: {problem}; {remedy}")

    def _digest(self, manifest: Manifest) -> str:
        content = {key: manifest[key] for key in self.content}
        return sha256_of(json.dumps(content, sort_keys=True))
