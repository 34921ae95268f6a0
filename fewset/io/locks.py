"""One process at a time: locks that are free again when their owner ends, however it ends."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from fewset.core.errors import UserError
from fewset.io.refusals import refused


@contextmanager
def alone(
    path: Path, told: str, in_process: Callable[[Callable[[], None]], None] = lambda acquire: acquire()
) -> Iterator[None]:
    """Hold the lock file `path`, or refuse with the words `told` where another process holds it.

    With several processes, `in_process` calls what it is given in the one that holds the lock.
    """
    lock = FileLock(path)

    def acquire() -> None:
        with refused(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                raise UserError(told) from None

    in_process(acquire)
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
