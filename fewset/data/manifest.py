"""Directories of arrays with a manifest, as image sets and tables of features are stored.

The manifest holds size and digest of each file and a digest of the whole content. It is written last
(`Layout.seal`) and checked at each opening (`Layout.read`). An error about a damaged directory has the
command that makes it again.
"""

import hashlib
import json
import os
import re
import shlex
import time
from collections.abc import Callable, Iterable
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
from fewset.io.reading import parsing, read_json

Manifest = dict[str, Any]
_T = TypeVar("_T")
_TRIES = 5

# Files up to this size are read and compared with their digest at each opening, which takes milliseconds.
_SMALL = 2**24


def home() -> Path:
    """The directory for imported data: `$FEWSET_HOME`, or the user data directory of the platform."""
    if chosen := os.environ.get("FEWSET_HOME"):
        path = user_path(chosen)
        if os.path.isfile(path):  # noqa: PTH113, no error without permission
            raise UserError(f"FEWSET_HOME is {shortened(chosen)}, which is a file; set it to a directory")
        return path
    try:
        return user_data_path("fewset", appauthor=False).expanduser()
    except RuntimeError:
        raise UserError("this user has no home directory; set FEWSET_HOME to a directory") from None


def import_command(kind: str, source: Path, name: str, **options: object) -> str:
    """The command line that imports a source; options that are None, False or 0 are left out."""
    words = ["fewset", "data", "import", kind, recorded_path(source), "--name", name]
    for option, value in options.items():
        if value:
            words += [f"--{option.replace('_', '-')}", *([] if value is True else [str(value)])]
    return shlex.join(words)


@dataclass(frozen=True)
class Origin:
    """The source of a set or table: a description that names no machine, and a key that identifies it."""

    words: str
    key: str = ""

    @classmethod
    def of(cls, path: Path, before: str = "") -> "Origin":
        """The origin in a directory or file; `before` says what kind of source it is."""
        return cls(before + recorded_path(path), sha256_of(before + str(path.absolute())))

    @classmethod
    def in_manifest(cls, manifest: Manifest) -> "Origin":
        return cls(manifest["source"], manifest.get("source_key", ""))

    def is_that_of(self, manifest: Manifest) -> bool:
        """Whether a set or table came from this source."""
        other = Origin.in_manifest(manifest)
        return (self.key or self.words) == (other.key or other.words)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


@dataclass(frozen=True)
class SealedFile:
    """A file in the manifest."""

    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class ManifestFields:
    """The fields of every manifest."""

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
    """A kind of stored directory: its name in messages, folder, format version and import command."""

    what: str
    folder: str
    format: int
    content: tuple[str, ...]
    """The keys of the manifest that the digest covers. Name, path and time are not content."""
    fields: type[ManifestFields]
    """All keys of the manifest, and their types."""
    kind: str = "KIND"
    """As in `fewset data import KIND SOURCE`."""
    generated: tuple[str, ...] = ()
    """Names that need no import, because code generates them when they are first opened."""

    def path(self, name: str) -> Path:
        """The directory for this name."""
        if not re.fullmatch(r"\w[\w.-]{0,99}", name):
            raise UserError(
                f"{shortened(name)!r} cannot be the name of an image set or a table: expected letters, "
                "digits, '-', '_' and '.', at most 100, the first a letter or a digit; choose another name"
            )
        return home() / self.folder / plain_name(name, f"the {self.what}")

    def names(self) -> list[str]:
        """The names in `home()`."""
        clear_all(home() / self.folder)
        manifests = (home() / self.folder).glob("[!.]*/manifest.json")
        return sorted(manifest.parent.name for manifest in manifests)

    def available(self) -> set[str]:
        """The names in `home()` and those that need no import."""
        return {*self.names(), *self.generated}

    def find(self, name: str | Path) -> Path:
        """The directory of this name, or at this path (anything with a path separator).

        It exists, unless the name is that of a generated one.
        """
        command = f"fewset data import {self.kind} SOURCE --name"
        if isinstance(name, Path) or "/" in name or os.sep in name:
            path = user_path(name)
            if not (path / "manifest.json").is_file():
                there = f"no {self.what} at {shortened(str(name))}: expected a directory with a manifest.json"
                raise UserError(f"{there}; import one: {command} NAME")
            return path
        path = self.path(name)
        clear_all(path.parent)  # which restores what a killed process was replacing
        if not path.exists() and name not in self.generated:
            missing = unknown_name(self.what, name, self.available())
            raise UserError(f"{missing} Import it: {command} {name}")
        return path

    def seal(self, directory: Path, files: tuple[str, ...], manifest: Manifest) -> str:
        """Write the manifest of finished files, with their sizes and digests; returns the digest of all."""
        # Whole seconds, since every file system and archive keeps them.
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

    def open(self, path: Path, build: Callable[[Path, Manifest], _T]) -> _T:
        """The object that `build` makes of a directory, also if another process replaces it meanwhile."""
        for _ in range(_TRIES):
            before = _identity(path)
            try:
                found = self._open(path, build)
            except UserError:
                if _identity(path) == before:
                    raise
            else:
                if _identity(path) == before:
                    return found
        raise UserError(f"{path} is being replaced again and again; try again when that has ended")

    def _open(self, path: Path, build: Callable[[Path, Manifest], _T]) -> _T:
        manifest = self.read(path)
        try:
            return build(path, manifest)
        except UserError:
            raise
        except (OSError, ValueError, TypeError, LookupError) as error:
            raise self.damaged(path, f"its arrays do not fit its manifest ({error})", manifest) from error

    def read(self, path: Path) -> Manifest:
        """The manifest of a directory whose files are as they were written, or an error."""
        manifest: Any = None
        try:
            with parsing(path / "manifest.json"):
                manifest = read_json(path / "manifest.json")
                if manifest["format"] != self.format:
                    raise ValueError(f"it has format {manifest['format']!r}, expected {self.format}")
                if manifest["digest"] != self._digest(manifest):
                    raise ValueError("it was edited, or is of another kind")
                parse(self.fields, manifest, what="manifest")
        except (OSError, UserError) as error:
            raise self.damaged(path, str(error), manifest) from error
        for file, expected in manifest["files"].items():
            status = (path / file).stat() if (path / file).exists() else None
            if status is None or status.st_size != expected["bytes"]:
                found = f"has {status.st_size} bytes" if status else "is missing"
                raise self.damaged(path, f"{file} {found}, expected {expected['bytes']} bytes", manifest)
            # A large file is read only if its date changed, because it was edited or copied without its date.
            if status.st_size <= _SMALL or status.st_mtime != manifest["written"]:
                self.verify(path, manifest, [file])
        checked: Manifest = manifest
        return checked

    def verify(self, path: Path, manifest: Manifest, files: Iterable[str] | None = None) -> None:
        """Read every byte of the files and compare with their digests."""
        for file in manifest["files"] if files is None else files:
            if file_digest(path / file) != manifest["files"][file]["sha256"]:
                raise self.damaged(path, f"{file} was edited", manifest)

    def check_source(self, path: Path, origin: Origin) -> None:
        """Raise if there is one at `path` from another source. One that is damaged may be replaced."""
        try:
            manifest = self.read(path)
        except UserError:
            return
        if not origin.is_that_of(manifest):
            taken = f"the {self.what} {path.name!r} exists and came from {manifest['source']!r}"
            raise UserError(f"{taken}; choose another name with --name, or replace it with --force")

    def damaged(self, path: Path, problem: str, manifest: Any) -> UserError:
        """The error about a damaged directory, with the command that makes it again."""
        if path.name in self.generated:
            remedy = f"remove {path}, and it is generated again when it is next used"
        else:
            default = f"fewset data import {self.kind} SOURCE --name {path.name}"
            command = manifest.get("command") if isinstance(manifest, dict) else None
            remedy = f"import it again: {command or default}"
        return UserError(f"the {self.what} {path} cannot be used: {problem}; {remedy}")

    def _digest(self, manifest: Manifest) -> str:
        content = {key: manifest[key] for key in self.content}
        return sha256_of(json.dumps(content, sort_keys=True))
