"""Every head scores tasks alike, many at once and one by one; and a real server under load."""

import pytest

from benchmarks.methods import ManyTasks, OneByOne, measure_methods
from benchmarks.serve import measure_serve
from fewset.bench.measuring import Measuring
from fewset.models.heads import HEADS
from fewset.models.method_info import method_info


@pytest.mark.slow
def test_methods_on_many_tasks_at_once() -> None:
    sizes = {"dim": 7, "large": 11, "tasks": 70, "plain_tasks": 3, "query": 2}
    record = measure_methods(Measuring(2, "cpu"), heads=("ridge", "tim"), **sizes)
    assert [side["images"] for side in record["sides"]] == [1050, 45, 1050, 45, 1050, 1050]
    assert [ratio["what"].split(",")[0] for ratio in record["ratios"]] == [
        "ridge (closed form)", "tim (iterative)"
    ]  # fmt: skip


@pytest.mark.parametrize("head", [name for name in HEADS if method_info(HEADS[name]).takes == "embeddings"])
def test_every_head_scores_tasks_alike_one_by_one(head: str) -> None:
    """`OneByOne` raises an error where the two ways differ."""
    side = OneByOne(head=head, dim=9, device="cpu", way=3, shot=2, query=3, tasks=4)
    assert side()["images"] == 4 * 15
    many = ManyTasks(head=head, dim=9, device="cpu", way=3, shot=2, query=3, tasks=70)
    assert (many()["images"], many()["images"]) == (64 * 15, 70 * 15)


@pytest.mark.slow
def test_a_server_under_a_little_load() -> None:
    record = measure_serve(Measuring(1, "cpu"), uploads=10, width=67, height=53, requests=12, clients=4)
    assert [side["images"] for side in record["sides"]] == [12, 12, 12]
    assert record["sides"][0]["peak_memory"] > 100 * 2**20
    assert [ratio["median"] > 0 for ratio in record["ratios"]] == [True, True]
