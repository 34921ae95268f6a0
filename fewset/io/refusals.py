"""What the system refuses (no space, no permission, nothing there) in the words of a user's error.

It is nobody's defect: the path and the remedy on one line say all. The command line turns every `OSError` of
these kinds into one; whoever knows the path better than the system's own message does it before (`refused`).
"""

import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fewset.core.errors import UserError
from fewset.core.names import one_line, shortened
from fewset.io.partial import partial_of
from fewset.io.reading import NotRegular

_REMEDIES = {
    errno.ENOSPC: "make room, or choose a place on another disk",
    errno.EDQUOT: "make room, or choose a place on another disk",
    errno.EFBIG: "choose a place on another disk, or raise the limit (ulimit -f)",
    errno.EROFS: "choose a place that can be written to",
    errno.EACCES: "change its permissions, or choose another place",
    errno.EPERM: "change its permissions, or choose another place",
    errno.ENOENT: "it is not there, or not any more: make it, or choose another",
    errno.ENOTDIR: "a part of the path is a file: choose another place",
    errno.EISDIR: "expected a file: choose another name",
    errno.EEXIST: "move it away, or choose another name",
    errno.ENOTEMPTY: "move it away, or choose another name",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "links lead in a circle: mend them",
    errno.EIO: "the disk cannot be read or written: look after it, or choose another",
    errno.ESTALE: "the disk is gone: connect it again, or choose another",
    errno.ENODEV: "the disk is gone: connect it again, or choose another",
    errno.ENXIO: "it is no regular file: choose another",
    errno.EBUSY: "something else uses it: wait, or choose another place",
    errno.ETXTBSY: "something else uses it: wait, or choose another place",
    errno.EMFILE: "raise the limit (ulimit -n), or give fewer files at once",
    errno.ENFILE: "end other programs, or give fewer files at once",
    errno.ENOMEM: "end other programs, or give less at once",
}
_LONGEST = 400  # letters of a path in an error
_NEARLY_FULL = 2**16


def as_user_error(error: BaseException, path: Path | None = None) -> UserError | None:
    """The user's error that this error of the system is; None for one that is a defect of fewset.

    `path` is what was to be written, where the error itself does not say it, or names a temporary file.
    """
    if isinstance(error, MemoryError):
        return UserError(f"there is not enough memory ({str(error) or 'out of memory'}); give less at once")
    if isinstance(error, NotRegular):
        return UserError(f"{error}; remove it, or choose another")
    cause = _cause(error, path)
    if cause is None or cause.errno not in _REMEDIES:
        return None
    name = cause.filename
    if name is None or (path is not None and _is_temporary(name)):
        name = path or "the current directory, or a file that the system does not name"
    place = shortened(one_line(_lasting(name)), _LONGEST)
    return UserError(f"{place}: {cause.strerror or cause}; {_REMEDIES[cause.errno]}")


@contextmanager
def refused(path: Path) -> Iterator[None]:
    """What the system refuses in the block is an error about `path`, whatever library was asked to write."""
    try:
        yield
    except (UserError, MemoryError):
        raise
    except Exception as error:
        told = as_user_error(error, path)
        if told is None:
            raise
        raise told from error


def _lasting(name: str | bytes | Path) -> str:
    """The path by its lasting name, though it was to be written in a directory that has none yet."""
    path = Path(os.fsdecode(name))
    return str(Path(*(partial_of(Path(part)) or part for part in path.parts)))


def _is_temporary(name: str | bytes) -> bool:
    return any(partial_of(Path(part)) for part in Path(os.fsdecode(name)).parts)


def _cause(error: BaseException, path: Path | None) -> OSError | None:
    """The error of the system behind one that a library made of it."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno is not None:
            return seen
        number = re.search(r"\(os error (\d+)\)", str(seen))  # as libraries that are written in Rust say it
        if number:
            return OSError(int(number[1]), str(seen).partition("(os error")[0].rpartition(": ")[2].strip())
        if "DefaultCPUAllocator: can't allocate memory" in str(seen):  # as PyTorch says it
            return OSError(errno.ENOMEM, "Cannot allocate memory")
        if re.search(r"Not enough free space|requested and \d+ written", str(seen)):  # as NumPy says it
            return OSError(errno.ENOSPC, "No space left on device")
        seen = seen.__cause__ or seen.__context__
    # PyTorch does not say why it could not write.
    full = path is not None and path.parent.exists() and shutil.disk_usage(path.parent).free < _NEARLY_FULL
    return OSError(errno.ENOSPC, "No space left on device") if full else None
