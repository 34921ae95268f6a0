"""Ctrl-C is never lost: where Python drops it, it comes again; what Python makes of it is known."""

import _thread
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_MOMENT = 0.01  # seconds


def is_interrupt(error: BaseException) -> bool:
    """Whether Python made this error of a Ctrl-C, as up to version 3.11 while it creates a class."""
    return isinstance(error, KeyboardInterrupt) or (
        error.__cause__ is not None and is_interrupt(error.__cause__)
    )


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Ctrl-C that comes while Python runs a destructor, and would only be shown, is raised again after it."""
    usual = sys.unraisablehook

    def again(dropped: "UnraisableHookArgs") -> None:
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            _thread.start_new_thread(_interrupt_after, (sys._getframe(),))
        else:
            usual(dropped)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = usual


def _interrupt_after(hook: FrameType) -> None:
    """Ctrl-C for the main thread, once it has left the hook, in which it would be lost again."""
    main = threading.main_thread().ident
    assert main is not None
    running = True
    while running:
        time.sleep(_MOMENT)
        frame = sys._current_frames().get(main)
        while frame is not None and frame is not hook:
            frame = frame.f_back
        running = frame is not None
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, signal.SIGINT)  # which ends what it waits for
    else:
        _thread.interrupt_main()
