"""Ctrl-C is never lost: where Python drops it, it comes again; what Python makes of it is known."""

import _thread
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_MOMENT = 0.01  # seconds, in which the destructor comes to its end


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
            timer = threading.Timer(_MOMENT, _thread.interrupt_main)
            timer.daemon = True
            timer.start()
        else:
            usual(dropped)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = usual
