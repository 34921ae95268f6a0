"""One process at a time: locks that are free again when their owner ends, however it ends."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from fewset.runtime import distributed
from fewset.runtime.errors import UserError
from fewset.runtime.refusals import refused


@contextmanager
def alone(path: Path, told: str) -> Iterator[None]:
    """Hold the lock file `path`, or refuse with the words `told` where another process holds it.

    For all processes of a run: the main one holds it.
    """
    lock = FileLock(path)

    def acquire() -> None:
        with refused(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                raise UserError(told) from None

    distributed.on_main_process(acquire)
    try:
        yield
    finally:
        _release(lock)


@contextmanager
def in_turn(path: Path) -> Iterator[None]:
    """Hold the lock file `path`; wait for another process that does. For one process alone."""
    lock = FileLock(path)
    with refused(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        _release(lock)


def _release(lock: FileLock) -> None:
    if lock.is_locked:
        # Whoever waits for it holds a file without a name then, and opens the lock again.
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()
