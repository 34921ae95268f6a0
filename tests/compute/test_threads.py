"""Calls side by side."""

import threading
from collections.abc import Iterator

import pytest
import torch

from fewset.compute.threads import side_by_side


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_call_is_made_in_the_mode_of_the_caller(threads: int) -> None:
    made: list[tuple[int, str, bool, bool]] = []

    def call(number: int, name: str) -> None:
        made.append((number, name, torch.is_inference_mode_enabled(), torch.is_grad_enabled()))

    with torch.inference_mode(), side_by_side(threads) as run:
        run(call, [(number, "a") for number in range(threads)])
        run(call, [(7, "b")])
    assert sorted(made) == [(number, "a", True, False) for number in range(threads)] + [(7, "b", True, False)]


def test_calls_overlap_and_each_computes_with_one_thread() -> None:
    met = threading.Barrier(2, timeout=30)
    threads: list[int] = []

    def call() -> None:
        met.wait()  # for ever, unless the other call runs meanwhile
        threads.append(torch.get_num_threads())

    with side_by_side(2) as run:
        run(call, [(), ()])
    assert threads == [1, 1]
    assert torch.get_num_threads() == 2


def test_an_error_in_a_call_is_raised_and_the_threads_are_given_back() -> None:
    def call(number: int) -> None:
        if number:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"), side_by_side(2) as run:
        run(call, [(0,), (1,)])
    assert torch.get_num_threads() == 2
