"""Several processes that work as one, started by `torchrun` on one machine or on many.

The first process ("main") prints and writes files. The processes meet at every training step and after every
chunk of an evaluation, so one that has died, hangs or cannot be reached is noticed within `TIMEOUT`.
"""

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from fewset.compute.hosts import end_launcher, unreachable
from fewset.compute.machine import tune, usable_cores
from fewset.core.errors import UserError
from fewset.io.os_errors import as_user_error

if TYPE_CHECKING:  # torch is imported when it is needed: the help of the command line is quick
    from torch import Tensor

_T = TypeVar("_T")

START = timedelta(minutes=2)  # for all processes to begin: some machines import torch slowly
TIMEOUT = timedelta(seconds=45)  # how long a process then waits for the others

_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


class LostProcess(Exception):  # noqa: N818
    """Another process of this run has ended or does not answer."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"process {rank()} of {world_size()} stops: {problem}; see the first error above, then give the "
            "same command again (pretrain and train: with --resume, to go on from the last checkpoint)"
        )


class _Processes(NamedTuple):
    rank: int = 0
    world: int = 1
    local_rank: int = 0


_processes = _Processes()


def rank() -> int:
    """The index of this process."""
    return _processes.rank


def world_size() -> int:
    """The number of processes, on all machines."""
    return _processes.world


def local_rank() -> int:
    """The index of this process on its machine."""
    return _processes.local_rank


def is_main_process() -> bool:
    """Whether this process prints and writes files."""
    return rank() == 0


@contextmanager
def session() -> Iterator[None]:
    """Join the other processes of torchrun, if it started this one, and silence all but the first."""
    global _processes
    if any(name not in os.environ for name in _VARIABLES) or os.environ["WORLD_SIZE"] == "1":
        yield
        return
    if "torch" not in sys.modules and os.environ.get("FEWSET_TUNE", "1") != "0":
        os.environ["OMP_NUM_THREADS"] = str(_threads())
    _processes = _Processes(*(int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")))
    if sys.platform != "win32":
        # Python's handlers run in the main thread, which may be inside torch, waiting for another process.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_end_at_sigterm, daemon=True).start()
    problem = unreachable()
    if problem is not None:
        print(f"error: {problem}", file=sys.stderr)
        sys.exit(2)
    tune()
    import torch
    import torch.distributed as dist

    good = False  # whether this process ends without an error
    try:
        with ExitStack() as stack:
            backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
            with _collective():
                _join(backend)
            if not is_main_process():
                stack.enter_context(redirect_stdout(stack.enter_context(open(os.devnull, "w"))))  # noqa: PTH123
            yield
        good = True
    except SystemExit as leaving:  # how every command ends
        good = not leaving.code
        raise
    except LostProcess as error:
        end_launcher()
        sys.exit(f"error: {error}")
    finally:
        if good:
            dist.destroy_process_group()  # would wait for processes that are lost
        _processes = _Processes()


def _join(backend: str) -> None:
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    store, number, count = next(rendezvous("env://", timeout=START))
    store.set_timeout(TIMEOUT)
    dist.init_process_group(backend, store=store, rank=number, world_size=count, timeout=TIMEOUT)


def _end_at_sigterm() -> None:
    signal.sigwait({signal.SIGTERM})
    error = LostProcess("torchrun ended it, as it does when another process has ended")
    print(f"error: {error}", file=sys.stderr, flush=True)
    os._exit(1)


def _threads() -> int:
    """An equal part of this machine's cores, unless the user has set OMP_NUM_THREADS.

    torchrun sets it to 1 where it is not set, so a 1 is taken for torchrun's.
    """
    given = int(os.environ.get("OMP_NUM_THREADS", 1))
    if given != 1:
        return given
    return max(1, usable_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", 1)))


# Collective operations: all processes must call them, in the same order.


@contextmanager
def _collective() -> Iterator[Any]:
    """The module `torch.distributed`; its errors mean that a process is lost."""
    import torch.distributed as dist

    try:
        yield dist
    except RuntimeError as error:
        # Without the place in the source of torch.
        said = re.sub(r"^\[\S+:\d+\] ", "", str(error)).partition("\n")[0].partition(". ")[0]
        raise LostProcess(f"another process has ended or does not answer ({said})") from error


def on_main_process(function: Callable[[], _T]) -> _T:
    """Call `function` in the first process only; all processes return its result, or raise its error."""
    if world_size() == 1:
        return function()
    outcome: list[Any] = [None, None]
    if is_main_process():
        try:
            outcome[0] = function()
        except Exception as error:
            outcome[1] = error if isinstance(error, UserError) else as_user_error(error)
            if outcome[1] is None:  # a defect, which keeps its traceback
                raise
    with _collective() as dist:
        dist.broadcast_object_list(outcome, src=0)
    if outcome[1] is not None:
        raise outcome[1]
    result: _T = outcome[0]
    return result


def all_gather(value: _T) -> list[_T]:
    """The value of each process."""
    if world_size() == 1:
        return [value]
    values: list[Any] = [None] * world_size()
    with _collective() as dist:
        dist.all_gather_object(values, value)
    return values


def average_(tensors: Sequence["Tensor"]) -> None:
    """Replace tensors by their mean over the processes."""
    if world_size() == 1:
        return
    import torch

    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    with _collective() as dist:
        dist.all_reduce(flat)
    means = torch.split(flat / world_size(), [tensor.numel() for tensor in tensors])
    for tensor, mean in zip(tensors, means, strict=True):
        tensor.copy_(mean.view(tensor.shape))


def broadcast_(tensors: Iterable["Tensor"]) -> None:
    """Give every process the values of the first."""
    if world_size() > 1:
        with _collective() as dist:
            for tensor in tensors:
                dist.broadcast(tensor, src=0)


# A list of items, of which each process does a part, in whole chunks. The chunks do not depend on the number
# of processes, so the results do not either, to the bit: matrix products may round differently in another
# batch.


def shard(total: int, chunk: int) -> tuple[int, int]:
    """The first and last (excluded) item of this process, in whole chunks.

    Processes without a chunk of their own do the last one again.
    """
    shares = _shares(total, chunk)
    return shares[min(rank(), len(shares) - 1)]


def own_chunks(total: int, chunk: int) -> Iterator[tuple[int, int]]:
    """The first and last (excluded) item of each chunk of this process's `shard`.

    After each chunk the process waits for the others, so that none is behind by more than a chunk.
    """
    begin, end = shard(total, chunk)
    rounds = max(-(-(last - first) // chunk) for first, last in _shares(total, chunk))
    for first in range(begin, begin + rounds * chunk, chunk):
        if first < end:
            yield first, min(first + chunk, end)
        all_gather(None)


def all_gather_shards_(results: "np.ndarray | Tensor", chunk: int) -> None:
    """Fill in the `shard` of every other process, along the first axis, in place."""
    if world_size() == 1:
        return
    import torch

    whole = torch.from_numpy(results) if isinstance(results, np.ndarray) else results
    with _collective() as dist:
        for source, (begin, end) in enumerate(_shares(len(whole), chunk)):
            dist.broadcast(whole[begin:end], src=source)


def all_gather_rows(mine: "Tensor", total: int, chunk: int) -> "Tensor":
    """All rows of a table, of which each process has computed its `shard`."""
    if world_size() == 1:
        return mine
    begin, end = shard(total, chunk)
    whole = mine.new_empty(total, *mine.shape[1:])
    whole[begin:end] = mine
    all_gather_shards_(whole, chunk)
    return whole


def _shares(total: int, chunk: int) -> list[tuple[int, int]]:
    chunks = -(-total // chunk)
    workers = max(1, min(world_size(), chunks))
    bounds = [min(total, chunk * (chunks * worker // workers)) for worker in range(workers + 1)]
    return list(pairwise(bounds))
