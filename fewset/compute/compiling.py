"""Loops as machine code, where numba is installed (`fewset[fast]`): the same numbers in less time.

A module of such loops is imported where it is used, and only when there is work enough: it takes half a
second to load and, the first time on a machine, a few seconds to compile. What is compiled is kept where
numba keeps it: beside the module or, if that cannot be written, in the user's cache.
"""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from fewset.core.extras import imports

Loop = TypeVar("Loop", bound=Callable[..., Any])

_TASKS = 10_000  # a few evaluations of so many in one process pay back the loading


def pays(tasks: int) -> bool:
    """Whether so many tasks are worth loading compiled loops, and there is what compiles them."""
    if tasks < _TASKS or not imports("numba"):
        return False
    disabled: bool = import_module("numba").config.DISABLE_JIT  # loops in Python would take for ever
    return not disabled


def compiled(signature: str, *, reorder: bool = False) -> Callable[[Loop], Loop]:
    """Compile a loop for arguments of these types: a decorator. Other threads run meanwhile.

    With `reorder`, sums may be taken in any order, which lets a processor add several numbers at once.
    """
    njit = import_module("numba").njit
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    if reorder:
        options["fastmath"] = {"reassoc", "nsz", "contract"}

    def decorate(loop: Loop) -> Loop:
        source = inspect.unwrap(loop)  # without the checks of shapes that tests put around it
        try:
            made: Loop = njit(signature, cache=True, **options)(source)
        except (OSError, RuntimeError):  # there is no place to keep it, or no space
            made = njit(signature, **options)(source)
        return made

    return decorate
