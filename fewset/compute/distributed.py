"""Several processes that work as one: those that `torchrun` starts, on one machine or on many.

Only `session` knows of torchrun. Without it there is one process, and everything else here does next to
nothing. The first process ("main") is the one that prints and writes files.

A process that dies closes its connections, so that the others notice at once. One that hangs, or whose
machine cannot be reached, does not. So each process sends a heartbeat to the store that torchrun keeps, and
watches that of the next rank. It ends when it hears nothing for a while, also if the store does not answer.
"""

import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np

from fewset.compute.machine import tune, usable_cores
from fewset.core.errors import UserError
from fewset.io.refusals import as_user_error

if TYPE_CHECKING:  # torch is imported when it is needed: the help of the command line is quick
    from jaxtyping import Float
    from torch import Tensor
    from torch._C._distributed_c10d import Store

_T = TypeVar("_T")

TIMEOUT = timedelta(minutes=30)  # how far behind the others a process that is alive may be
BEAT, SILENCE = 3.0, 24.0  # seconds between two heartbeats, and without any until a process is given up
GRACE = 5.0  # seconds after SIGTERM in which the main thread may end in good order
_LEFT = 2**32  # a sign of life that says: gone in good order

_TERMINATED = "torchrun ended it, as it does when another process has ended"
_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


class LostProcess(Exception):  # noqa: N818
    """Another process of this run has ended or does not answer, so that this one cannot go on."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"process {rank()} of {world_size()} stops: {what}; the other's own message says why; "
            "give the same command again (pretrain and train: with --resume, which goes on from the last "
            "checkpoint)"
        )


@dataclass(frozen=True)
class _Processes:
    rank: int = 0
    world: int = 1
    local_rank: int = 0


_processes = _Processes()


def rank() -> int:
    """The number of this process."""
    return _processes.rank


def world_size() -> int:
    """How many processes there are, on all machines."""
    return _processes.world


def local_rank() -> int:
    """The number of this process on its machine."""
    return _processes.local_rank


def is_main_process() -> bool:
    """Whether this process is the one that prints and writes files."""
    return rank() == 0


# Starting and ending


@contextmanager
def session() -> Iterator[None]:
    """Join the other processes of torchrun, if it started this one, and silence all but the first."""
    global _processes
    if any(name not in os.environ for name in _VARIABLES) or os.environ["WORLD_SIZE"] == "1":
        yield
        return
    if "torch" not in sys.modules and os.environ.get("FEWSET_TUNE", "1") != "0":
        os.environ["OMP_NUM_THREADS"] = str(_threads())
    tune()
    import torch
    import torch.distributed as dist

    dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo", timeout=TIMEOUT)
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(  # type: ignore[attr-defined]
        *address, is_master=False, timeout=timedelta(seconds=SILENCE)
    )
    alive = dist.PrefixStore("alive", store)  # type: ignore[attr-defined]
    _processes = _Processes(dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_RANK"]))
    pulse = _Pulse()
    beating = threading.Thread(target=_beat, args=(alive, pulse), daemon=True)
    beating.start()
    usual = signal.signal(signal.SIGTERM, _terminated)
    signals, written = socket.socketpair()
    written.setblocking(False)
    signal.set_wakeup_fd(written.fileno())
    threading.Thread(target=_watch, args=(signals, pulse), daemon=True).start()
    good = False  # whether this process ends as it should
    try:
        with ExitStack() as stack:
            if not is_main_process():
                stack.enter_context(redirect_stdout(stack.enter_context(open(os.devnull, "w"))))  # noqa: PTH123
            yield
        good = True
    except SystemExit as leaving:  # how every command ends
        good = not leaving.code
        raise
    finally:
        pulse.ended.set()
        beating.join(BEAT)  # no longer: the store may not answer
        signal.set_wakeup_fd(-1)
        written.close()
        if good:
            dist.destroy_process_group()  # would wait for those that are lost
            signal.signal(signal.SIGTERM, usual)
        _processes = _Processes()


def _threads() -> int:
    """An equal part of this machine's cores, unless the user has said otherwise.

    torchrun sets OMP_NUM_THREADS to 1 where it is not set, so a 1 is taken for torchrun's.
    """
    given = int(os.environ.get("OMP_NUM_THREADS", 1))
    if given != 1:
        return given
    return max(1, usable_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", 1)))


class _Pulse:
    """What the thread that exchanges heartbeats tells the one that watches it."""

    def __init__(self) -> None:
        self.heard = time.monotonic()  # when the next rank was last known to be alive
        self.ended = threading.Event()


def _beat(store: "Store", pulse: _Pulse) -> None:
    """Send heartbeats and listen to the next rank's, until the end. May wait for the store for ever."""
    mine, watched, count = str(rank()), _next_rank(), 0
    try:
        while not pulse.ended.wait(BEAT):
            store.add(mine, 1)
            now = store.add(watched, 0)
            if now != count or now >= _LEFT:
                count, pulse.heard = now, time.monotonic()
        store.add(mine, _LEFT)
    except RuntimeError as error:
        if not pulse.ended.is_set():
            _give_up(f"the process that torchrun coordinates with is gone ({_brief(error)})")


def _watch(signals: socket.socket, pulse: _Pulse) -> None:
    """End this process when the next rank is silent, or after a SIGTERM that the main thread cannot handle.

    It cannot while it waits inside a library for another process. Python writes the number of each signal
    that arrives to the other end of `signals`.
    """
    last = float("inf")
    signals.settimeout(BEAT)
    while time.monotonic() < last and not pulse.ended.is_set():
        if time.monotonic() - pulse.heard > SILENCE:
            _give_up(f"process {_next_rank()} has given no sign of life for {SILENCE:.0f} s")
        with suppress(TimeoutError):
            if signal.SIGTERM in signals.recv(1):
                last = min(last, time.monotonic() + GRACE)
    if not pulse.ended.is_set():
        _give_up(_TERMINATED)


def _next_rank() -> str:
    return str((rank() + 1) % world_size())


def _give_up(what: str) -> NoReturn:
    # The main thread may wait inside a library, where no exception reaches it.
    print(f"error: {LostProcess(what)}", file=sys.stderr, flush=True)
    os._exit(1)


def _terminated(*_: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise LostProcess(_TERMINATED)


@contextmanager
def _talking() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it will follow, and must not disturb what is said
        raise LostProcess(f"another process has ended or does not answer ({_brief(error)})") from error


def _brief(error: Exception) -> str:
    """The first sentence, without the place in the source."""
    return re.sub(r"^\[\S+:\d+\] ", "", str(error)).partition("\n")[0].partition(". ")[0]


# Working together. Each of these must be called by all processes, in the same order.


def on_main_process(function: Callable[[], _T]) -> _T:
    """Call `function` in the first process alone; all wait for it, and return or raise what it does."""
    if world_size() == 1:
        return function()
    import torch.distributed as dist

    outcome: list[Any] = [None, None]
    if is_main_process():
        try:
            outcome[0] = function()
        except Exception as error:
            outcome[1] = error if isinstance(error, UserError) else as_user_error(error)
            if outcome[1] is None:  # a defect, which keeps its traceback
                raise
    with _talking():
        dist.broadcast_object_list(outcome, src=0)
    if outcome[1] is not None:
        raise outcome[1]
    result: _T = outcome[0]
    return result


def all_gather(value: _T) -> list[_T]:
    """The value of each process."""
    if world_size() == 1:
        return [value]
    import torch.distributed as dist

    values: list[Any] = [None] * world_size()
    with _talking():
        dist.all_gather_object(values, value)
    return values


def shard(total: int, chunk: int) -> tuple[int, int]:
    """The first and last (excluded) of the items that are this process's work, in whole chunks.

    The chunks are the same whatever the number of processes, so that results are too, to the bit: a product
    of matrices may round differently in another batch.
    """
    return _shares(total, chunk)[min(rank(), _workers(total, chunk) - 1)]


def all_gather_shards_(results: "np.ndarray | Tensor", chunk: int) -> None:
    """Fill in what the other processes have computed of their `shard`, along the first axis, in place."""
    if world_size() == 1:
        return
    import torch
    import torch.distributed as dist

    whole = torch.from_numpy(results) if isinstance(results, np.ndarray) else results
    with _talking():
        for source, (begin, end) in enumerate(_shares(len(whole), chunk)):
            dist.broadcast(whole[begin:end], src=source)


def all_gather_rows(mine: "Tensor", total: int, chunk: int) -> "Tensor":
    """All rows of a table of which each process has computed its `shard`."""
    if world_size() == 1:
        return mine
    begin, end = shard(total, chunk)
    whole = mine.new_empty(total, *mine.shape[1:])
    whole[begin:end] = mine
    all_gather_shards_(whole, chunk)
    return whole


def _workers(total: int, chunk: int) -> int:
    """Where there are fewer chunks than processes, those without one do the last again."""
    return max(1, min(world_size(), -(-total // chunk)))


def _shares(total: int, chunk: int) -> list[tuple[int, int]]:
    chunks, workers = -(-total // chunk), _workers(total, chunk)
    bounds = [min(total, chunk * (chunks * number // workers)) for number in range(workers + 1)]
    return list(pairwise(bounds))


def mean_of_rows(mine: "Float[Tensor, 'mine width']", total: int) -> "Float[Tensor, ' width']":
    """The mean of `total` rows, of which each process has its `shard` in chunks of 1.

    They are added in their order, whatever process has which, so that the mean is the same to the bit. Each
    process adds up some of the columns, so that no more is sent than in an all-reduce.
    """
    import torch
    import torch.distributed as dist

    world, width = world_size(), mine.shape[1]
    if world == 1:
        return _sum_in_order(mine) / total
    shares = [end - begin for begin, end in _shares(total, chunk=1)]
    shares += [0] * (world - len(shares))
    columns = -(-width // world)
    padded = torch.nn.functional.pad(mine[: shares[rank()]], (0, columns * world - width))
    sent = padded.view(-1, world, columns).transpose(0, 1).reshape(-1, columns)
    received, means = mine.new_empty(total, columns), mine.new_empty(world * columns)
    with _talking():
        dist.all_to_all_single(received, sent, shares, [shares[rank()]] * world)
        dist.all_gather_into_tensor(means, _sum_in_order(received) / total)
    return means[:width]


def _sum_in_order(rows: "Float[Tensor, 'rows width']") -> "Float[Tensor, ' width']":
    total = rows[0].clone()
    for row in rows[1:]:
        total += row
    return total


def broadcast_(tensors: Iterable["Tensor"]) -> None:
    """Give every process the numbers of the first."""
    if world_size() == 1:
        return
    import torch.distributed as dist

    with _talking():
        for tensor in tensors:
            dist.broadcast(tensor, src=0)
