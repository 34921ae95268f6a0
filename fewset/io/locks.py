"""Locks between processes; the system frees the lock of a process that ends, however it ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from fewset.core.errors import UserError
from fewset.io.os_errors import refused


@contextmanager
def alone(
    path: Path, message: str, in_process: Callable[[Callable[[], None]], None] = lambda acquire: acquire()
) -> Iterator[None]:
    """Hold the lock file `path`, or raise `UserError(message)` if another process holds it.

    With several processes, `in_process` calls its argument in the process that holds the lock.
    """
    lock = FileLock(path, timeout=0)

    def acquire() -> None:
        try:
            _acquire(lock)
        except Timeout:
            raise UserError(message) from None

    in_process(acquire)
    try:
        yield
    finally:
        _release(lock)


@contextmanager
def in_turn(path: Path) -> Iterator[None]:
    """Hold the lock file `path`; wait while another process holds it."""
    lock = FileLock(path)
    _acquire(lock)
    try:
        yield
    finally:
        _release(lock)


def _acquire(lock: FileLock) -> None:
    directory = Path(lock.lock_file).parent
    with refused(directory):
        directory.mkdir(parents=True, exist_ok=True)
        lock.acquire()


def _release(lock: FileLock) -> None:
    if lock.is_locked:
        # A process that waits for it then holds a file without a name, and opens the lock again.
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()
