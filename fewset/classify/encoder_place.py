"""Where a classifier's encoder is, if it is a file or a directory: as a path from the classifier's own file.

So the file is of use from any working directory, and can be moved together with its encoder. An encoder that
is known by its name alone, as those that are installed are, has no place.
"""

import os
from itertools import islice
from pathlib import Path

from fewset.encoders import is_encoder
from fewset.encoders.onnx_file import parts_of, settings_of
from fewset.io.paths import recorded_path, user_path

_MOST_FILES = 10_000  # of a directory


def name_in_file(name: str, folder: Path) -> str:
    """The name of an encoder, as a file in that folder says it; `name` is from the working directory."""
    family, path = _parts(name)
    return _joined(family, recorded_path(path, folder)) if path and _exists(path) else name


def name_from_file(name: str, folder: Path) -> str:
    """The name from the working directory, of what a file in that folder says."""
    family, path = _parts(name)
    return _joined(family, recorded_path(folder / path)) if path and _exists(folder / path) else name


def files_of(name: str) -> list[Path]:
    """The files that an encoder of this name is read from, where it is a file or a directory."""
    named = _parts(name)[1]
    path = None if named is None else user_path(named)
    if path is None or not _exists(path):
        return []
    if path.is_dir():
        return [file for file in islice(path.rglob("*"), _MOST_FILES) if file.is_file()]
    return [*parts_of(path), settings_of(path)]


def _parts(name: str) -> tuple[str, Path | None]:
    """The family of an encoder, with its colon, and its path; the name of a run always has a slash."""
    family, colon, rest = name.partition(":")
    if rest and is_encoder(name):
        return family + colon, Path(rest)
    return "", Path(name) if "/" in name else None


def _joined(family: str, path: str) -> str:
    return family + path if family or "/" in path else f"./{path}"


def _exists(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110 (what a damaged file says may be no path at all: False, no error)
