"""Errors of the system (no space, no permission, file not found) as a user's error: one line, with a remedy.

They are no defects of fewset. The command line turns every such `OSError` into one; code that knows the path
better than the system's message uses `refused`.
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
from fewset.io.paths import TEMPORARY
from fewset.io.reading import Damaged

_ROOM = "make room, or choose a place on another disk"
_OTHER = "choose another place"
_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), _ROOM),
    **dict.fromkeys((errno.EACCES, errno.EPERM), f"change its permissions, or {_OTHER}"),
    errno.ENOENT: "make it, or choose another",
    errno.ENOTDIR: f"a part of the path is a file: {_OTHER}",
    errno.EMFILE: "raise the limit (ulimit -n), or give fewer files at once",
    errno.ENOMEM: "end other programs, or give less at once",
}
_DEFECTS = {errno.EINVAL, errno.EBADF, errno.EFAULT}  # fewset has called the system wrongly
_LONGEST = 400  # letters of a path in an error
_NEARLY_FULL = 2**16


def as_user_error(error: BaseException, path: Path | None = None) -> UserError | None:
    """The user's error for an error of the system; None for any other error, which is a defect of fewset.

    `path` is the file that was to be written, for errors that do not name one.
    """
    if isinstance(error, MemoryError):
        return UserError(f"there is not enough memory ({str(error) or 'out of memory'}); give less at once")
    if isinstance(error, Damaged):
        return UserError(f"{error}; replace it, or choose another")
    cause = _cause(error, path)
    if cause is None or cause.errno is None or cause.errno in _DEFECTS:
        return None
    name = cause.filename or path or "the current directory, or a file that the system does not name"
    place = shortened(one_line(TEMPORARY.sub(r"\g<of>", os.fsdecode(name))), _LONGEST)
    return UserError(f"{place}: {cause.strerror or cause}; {_REMEDIES.get(cause.errno, _OTHER)}")


@contextmanager
def refused(path: Path) -> Iterator[None]:
    """Turn an error of the system into a user's error about `path`, whatever library raised it."""
    try:
        yield
    except (UserError, MemoryError):
        raise
    except Exception as error:
        as_error = as_user_error(error, path)
        if as_error is None:
            raise
        raise as_error from error


def _cause(error: BaseException, path: Path | None) -> OSError | None:
    """The error of the system behind one that a library made of it."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno is not None:
            return seen
        # As libraries that are written in Rust say it.
        code = re.search(r"\(os error (\d+)\)|Os \{ code: (\d+)", str(seen))
        if code:
            number = int(code[1] or code[2])
            return OSError(number, os.strerror(number))
        if "DefaultCPUAllocator: can't allocate memory" in str(seen):  # as PyTorch says it
            return OSError(errno.ENOMEM, "Cannot allocate memory")
        if re.search(r"Not enough free space|requested and \d+ written", str(seen)):  # as NumPy says it
            return OSError(errno.ENOSPC, "No space left on device")
        seen = seen.__cause__ or seen.__context__
    # PyTorch does not say why it could not write.
    full = path is not None and path.parent.exists() and shutil.disk_usage(path.parent).free < _NEARLY_FULL
    return OSError(errno.ENOSPC, "No space left on device") if full else None
