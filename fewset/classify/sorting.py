"""Photos sorted into a folder a class, by moving or linking them; a stopped run goes on where it was.

Nothing is ever overwritten: of photos with equal names the second becomes "name (2).jpg", and so on. Where
each photo goes is written to a log before it goes there, so that after a stop only the last one is in doubt.
"""

import errno
import filecmp
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import IO

import numpy as np

from fewset.classify.answers import NONE_OF_THESE
from fewset.classify.class_names import folder_name
from fewset.classify.journal import Row, checked_line, value_of
from fewset.runtime.errors import UserError
from fewset.runtime.inside import inside
from fewset.runtime.reading import open_file

Place = Callable[[Path, Path], None]
"""Puts a photo to a path; raises `FileExistsError` where something is there."""


def class_folders(folder: Path, classes: np.ndarray) -> dict[str, Path]:
    """Where the photos of each class go, by what it is."""
    names = [*map(folder_name, classes), NONE_OF_THESE]
    return {f"the folder of {name!r}": inside(folder, name) for name in names}


def check_folders(folders: Iterable[Path]) -> None:
    """Refuse, before the work, what could not be sorted after it."""
    for path in folders:
        if path.exists() and not path.is_dir():
            raise UserError(f"{path} is a file, expected a folder; move it away, or choose another folder")


def sort_photos(rows: Iterable[Row], folder: Path, place: Place, log: Path) -> None:
    """Put each photo into the folder of its class; those that could not be read stay where they are."""
    settled, doubtful = _reopened(inside(log.parent, log.name), folder)
    with log.open("ab") as file:
        for number, row in enumerate(rows):
            if number < settled:
                continue
            begun = doubtful if number == settled else None
            stays = row["problem"] is not None
            if stays or not _put(Path(row["file"]), row["class"], folder, place, file, begun):
                _note(file, None)


def sorted_to(log: Path) -> Iterator[str | None]:
    """Where each photo went, None for those that stayed."""
    with log.open("rb") as file:
        for line in file:
            yield value_of(line)


def move(photo: Path, target: Path) -> None:
    """Move a file, to another disk too; a link is made anew, since it may lead from where it is."""
    if photo.is_symlink():
        link(photo, target)
        photo.unlink()
        return
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))  # takes the name, or fails
    try:
        photo.replace(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            target.unlink()
            raise
        copy = target.with_name(f".{target.name}.partial")
        copy.unlink(missing_ok=True)  # of a stopped run, or a link, which would be followed
        try:
            shutil.copy2(photo, copy)
        except OSError as full:
            if full.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise OSError(full.errno, full.strerror, str(target)) from None  # not the photo is at fault
        with copy.open("rb") as written:
            os.fsync(written.fileno())
        copy.replace(target)
        photo.unlink()


def link(photo: Path, target: Path) -> None:
    """Make a symbolic link to a file; one that is there already is as good."""
    if not _is_link(target, photo):
        target.symlink_to(photo.resolve())


def _put(photo: Path, label: object, folder: Path, place: Place, log: IO[bytes], begun: str | None) -> bool:
    """Whether the photo was put into its folder; it may be gone."""
    if not os.path.lexists(photo):
        if begun is not None:
            _note(log, begun)  # it was moved when the run was stopped
        return begun is not None
    into = inside(folder, NONE_OF_THESE if label == NONE_OF_THESE else folder_name(label))
    into.mkdir(parents=True, exist_ok=True)
    if begun is not None and _left_by_a_stop(photo, Path(begun)):
        Path(begun).unlink()
    for number in count(1):
        target = into / (photo.name if number == 1 else f"{photo.stem} ({number}){photo.suffix}")
        there = target.is_symlink() or target.exists()
        if there and not target.is_symlink() and target.resolve() == photo.resolve():
            _note(log, str(target))  # it is in its folder already
            break
        if there and not _is_link(target, photo):
            continue
        before = log.tell()
        _note(log, str(target))
        try:
            place(photo, target)
        except FileExistsError:  # it came between
            log.truncate(before)
            log.seek(before)
        else:
            break
    return True


def _is_link(target: Path, photo: Path) -> bool:
    return target.is_symlink() and target.resolve() == photo.resolve()


def _left_by_a_stop(photo: Path, target: Path) -> bool:
    """Whether what is at the target is the beginning of a move: an empty file, or a copy of the photo."""
    if target.is_symlink() or not target.is_file():
        return False
    return not target.stat().st_size or filecmp.cmp(photo, target, shallow=False)


def _note(log: IO[bytes], target: str | None) -> None:
    log.write(checked_line(target))
    log.flush()


def _reopened(log: Path, folder: Path) -> tuple[int, str | None]:
    """How many photos are settled, and where the next was going; the log is cut to the settled ones."""
    ends, last = [0], None
    if log.exists():
        with open_file(log) as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                ends.append(ends[-1] + len(line))
                last = _target(line, log, folder)
        os.truncate(log, ends[max(0, len(ends) - 2)])
    return max(0, len(ends) - 2), last


def _target(line: bytes, log: Path, folder: Path) -> str | None:
    """Where a photo went, by a line of the log: into a folder of a class."""
    try:
        target: str | None = value_of(line)
        if target is None or (Path(target).parent.parent == folder and Path(target).name != ".."):
            return target
    except (TypeError, ValueError):
        pass
    raise UserError(
        f"{log} is not what a stopped run left; remove it, and what is in {folder} already stays there"
    )
