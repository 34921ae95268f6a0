"""Calls side by side on the threads that torch would compute with."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch

Run = Callable[[Callable[..., None], Iterable[tuple[Any, ...]]], None]
"""Calls a function with each tuple of arguments, and returns when all calls have."""


@contextmanager
def side_by_side(threads: int) -> Iterator[Run]:
    """A function that makes so many calls at once, in the grad mode of the caller.

    Torch divides each operation among its threads, and small ones gain nothing from that. Here every call has
    a thread to itself, and torch computes with that one alone until the end.
    """

    def one_by_one(call: Callable[..., None], arguments: Iterable[tuple[Any, ...]]) -> None:
        for each in arguments:
            call(*each)

    if threads < 2:
        yield one_by_one
        return
    before, inference = torch.get_num_threads(), torch.is_inference_mode_enabled()
    gradients = torch.is_grad_enabled()

    def in_thread(call: Callable[..., None], each: tuple[Any, ...]) -> None:
        with torch.inference_mode(inference), torch.set_grad_enabled(gradients):
            call(*each)

    torch.set_num_threads(1)  # new threads take this over
    try:
        with ThreadPoolExecutor(threads) as pool:

            def at_once(call: Callable[..., None], arguments: Iterable[tuple[Any, ...]]) -> None:
                first, *others = arguments
                running = [pool.submit(in_thread, call, each) for each in others]
                call(*first)  # this thread computes, too
                for one in running:
                    one.result()

            yield at_once
    finally:
        torch.set_num_threads(before)
