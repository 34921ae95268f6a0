"""Photos sorted into a folder a class, by moving or linking them; a stopped run goes on where it was.

Where each photo goes is planned, and the plan is written, before the first photo goes there. So the plan can
be carried out again after a stop. Nothing is ever overwritten: of photos with equal names the second becomes
"name (2).jpg", and so on.
"""

import errno
import filecmp
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fewset.classify.labels import NONE_OF_THESE, folder_name
from fewset.classify.photos.sources import file_state
from fewset.classify.predict.answers import Row
from fewset.classify.predict.files import is_answer
from fewset.core.errors import UserError
from fewset.io.files import replacing
from fewset.io.paths import inside
from fewset.io.reading import open_file, parse_json

Place = Callable[[Path, Path], None]
"""Puts a photo to a path; raises `FileExistsError` where something is there."""


class Step(NamedTuple):
    """Where one photo goes: the answer for it, its size and modification time, and its new path."""

    row: Row
    state: tuple[int, int]
    target: str | None
    """None for a photo that stays: it cannot be read, or it has changed since it was answered."""


def class_folders(folder: Path, classes: np.ndarray) -> dict[str, Path]:
    """Where the photos of each class go, by what it is."""
    names = [*map(folder_name, classes), NONE_OF_THESE]
    return {f"the folder of {name!r}": inside(folder, name) for name in names}


def check_folders(folders: Iterable[Path]) -> None:
    """Refuse, before the work, what could not be sorted after it."""
    for path in folders:
        if path.exists() and not path.is_dir():
            raise UserError(f"{path} is a file, expected a folder; move it away, or choose another folder")


def plan_sorting(rows: Iterable[tuple[Row, tuple[int, int]]], folder: Path, place: Place) -> Iterator[Step]:
    """Where each photo goes; the names are free now."""
    taken: set[Path] = set()
    for row, state in rows:
        photo = Path(row["file"])
        if row["problem"] is not None or file_state(photo) != state:
            yield Step(row, state, None)
            continue
        for target in _names(photo, _class_folder(row, folder)):
            if target not in taken and (not os.path.lexists(target) or _is_there(photo, target, place)):
                break
        taken.add(target)
        yield Step(row, state, str(target))


def write_plan(path: Path, key: str, steps: Iterable[Step]) -> None:
    """As a whole or not at all."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        for line in chain([{"sorting": key}], steps):
            file.write(json.dumps(line).encode() + b"\n")


def planned_by(path: Path) -> str | None:
    """The key of the run whose plan is in the file; None where there is none."""
    if not path.exists():
        return None
    with open_file(inside(path.parent, path.name)) as file:
        try:
            found = parse_json(file.readline().decode())
        except ValueError:
            return None
    return str(found["sorting"]) if isinstance(found, dict) and "sorting" in found else None


def read_plan(path: Path, folder: Path, could_list: Callable[[str], bool]) -> Iterator[Step]:
    """The steps of a plan; one that would touch other files than the run may is refused."""
    with open_file(inside(path.parent, path.name)) as file:
        next(file)
        for line in file:
            try:
                step = _step(parse_json(line.decode()), folder)
            except (TypeError, ValueError):
                step = None
            if step is None or not could_list(step.row["file"]):
                raise UserError(f"{path} is not what a stopped run left; remove it, and start again")
            yield step


def sort_photos(steps: Iterable[Step], place: Place) -> Iterator[str | None]:
    """Carry out a plan, or what a stop left of it; where each photo is now, None for those that stay."""
    for row, state, target in steps:
        now = None if target is None else _put(Path(row["file"]), state, Path(target), place)
        yield str(now) if now is not None and os.path.lexists(now) else None


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
    """Make a symbolic link to a file; one that is there already is as good."""
    if not (target.is_symlink() and target.resolve() == photo.resolve()):
        target.symlink_to(photo.resolve())


def _copy(photo: Path, target: Path) -> None:
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    copy = target.with_name(f".{target.name}.partial")
    copy.unlink(missing_ok=True)  # of a stopped run, or a link, which would be followed
    try:
        shutil.copy2(photo, copy)
        with copy.open("rb") as written:
            os.fsync(written.fileno())
        copy.replace(target)
    except OSError as error:
        copy.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise OSError(error.errno, error.strerror, str(target)) from None  # not the photo is at fault
        raise


def _put(photo: Path, state: tuple[int, int], target: Path, place: Place) -> Path:
    """Where the photo is now: at the target, unless somebody else has put something there meanwhile."""
    if file_state(photo) != state or _is_there(photo, target, place):
        return target  # a stopped run has put it there; what is at the photo's place now is another
    if place is move and not target.is_symlink() and target.is_file() and filecmp.cmp(photo, target, False):
        photo.unlink()  # a run was stopped between copying and removing
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    names = chain([target], _names(photo, target.parent))
    while True:
        name = next(names)
        try:
            place(photo, name)
        except FileExistsError:
            continue
        return name


def _names(photo: Path, folder: Path) -> Iterator[Path]:
    yield folder / photo.name
    yield from (folder / f"{photo.stem} ({number}){photo.suffix}" for number in count(2))


def _class_folder(row: Row, folder: Path) -> Path:
    label = row["class"]
    return inside(folder, NONE_OF_THESE if label == NONE_OF_THESE else folder_name(label))


def _is_there(photo: Path, target: Path, place: Place) -> bool:
    """Whether the photo is at the target already, or a link to it where it is to be linked."""
    if photo.absolute() == target.absolute():
        return True
    same = os.path.lexists(target) and target.resolve() == photo.resolve()
    return same and (place is link or not target.is_symlink())


def _step(value: Any, folder: Path) -> Step | None:
    row, (size, modified), target = value
    if not is_answer(row) or not isinstance(size, int) or not isinstance(modified, int):
        return None
    if target is not None and (
        Path(target).parent != _class_folder(row, folder) or Path(target).name == ".."
    ):
        return None
    return Step(row, (size, modified), target)
