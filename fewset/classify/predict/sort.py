"""Photos sorted into a folder a class, by moving or linking them.

Nothing is overwritten: of photos with equal names the second becomes "name (2).jpg", and so on. To sort the
same answers again after a stop does the rest: a photo that is in its folder already is recognised.
"""

import errno
import filecmp
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path

import numpy as np

from fewset.classify.labels import NONE_OF_THESE, folder_name
from fewset.classify.photos.sources import State, file_state
from fewset.classify.predict.answers import Row
from fewset.core.errors import UserError
from fewset.io.files import sync
from fewset.io.paths import inside

Place = Callable[[Path, Path], None]
"""Puts a photo to a path; raises `FileExistsError` where something is there."""


def check_folders(folder: Path, classes: np.ndarray) -> None:
    """Check, before the work, that there can be a folder for each class."""
    for path in (folder, *(_class_folder(folder, label) for label in (*classes, NONE_OF_THESE))):
        if path.exists() and not path.is_dir():
            raise UserError(f"{path} is a file, expected a folder; move it away, or choose another folder")


def sort_photos(answers: Iterable[tuple[State, Row]], folder: Path, place: Place) -> Iterator[str | None]:
    """Put each photo to its class; yields where it is now, None for one that stays.

    These are photos that cannot be read, and photos that have changed since they were answered.
    """
    taken: set[Path] = set()
    for state, row in answers:
        now = None
        if row["problem"] is None:
            now = _put(Path(row["file"]), state, _class_folder(folder, row["class"]), place, taken)
        if now is not None:
            taken.add(now)
        yield None if now is None else str(now)


def move(photo: Path, target: Path) -> None:
    """Move a file, to another disk too; a symbolic link is replaced by another to the same file."""
    if photo.is_symlink():
        link(photo, target)
    else:
        try:
            os.link(photo, target)  # unlike renaming, it never overwrites
        except FileExistsError:
            raise
        except OSError:  # another disk, or one without hard links
            _copy(photo, target)
    photo.unlink()


def link(photo: Path, target: Path) -> None:
    """Make a symbolic link to a file."""
    target.symlink_to(photo.resolve())


def _copy(photo: Path, target: Path) -> None:
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    copy = target.with_name(f".{target.name}.partial")
    copy.unlink(missing_ok=True)  # of a stopped run
    try:
        shutil.copy2(photo, copy)
        sync(copy)
        copy.replace(target)
    finally:
        copy.unlink(missing_ok=True)


def _put(photo: Path, state: State, folder: Path, place: Place, taken: set[Path]) -> Path | None:
    unchanged = file_state(photo) == state
    for number in count(1):
        target = folder / (photo.name if number == 1 else f"{photo.stem} ({number}){photo.suffix}")
        if target in taken:
            continue
        if not os.path.lexists(target):
            if not unchanged:
                return None
            folder.mkdir(parents=True, exist_ok=True)
            try:
                place(photo, target)
            except FileExistsError:
                continue
            return target
        if target.parent.resolve() / target.name == photo.parent.resolve() / photo.name:
            return target
        if place is link:
            if target.is_symlink() and target.resolve() == photo.resolve():
                return target
        elif not unchanged:
            if file_state(target) == state:
                return target  # moved before a stop
        elif _is_copy(target, photo):
            photo.unlink()  # a stop came between copying and removing
            return target
    raise AssertionError


def _is_copy(target: Path, photo: Path) -> bool:
    """Whether a photo was moved to the target but for its removal; a link to the photo does not count."""
    if target.is_symlink() or photo.is_symlink():
        return target.is_symlink() and photo.is_symlink() and target.resolve() == photo.resolve()
    return file_state(target) == file_state(photo) and filecmp.cmp(photo, target, shallow=False)


def _class_folder(folder: Path, label: object) -> Path:
    return inside(folder, NONE_OF_THESE if label == NONE_OF_THESE else folder_name(label))
