"""Ctrl-C is never lost: where Python drops it, it comes again a moment later."""

import _thread
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_MOMENT = 0.01  # seconds, in which the destructor comes to its end


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
