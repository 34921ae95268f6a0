"""What is compared with what: the three parts of `fewset bench`, and the record that each returns."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from fewset.bench.workers import Repetition, Worker, take_turns
from fewset.data.images.store import open_set
from fewset.experiments.evaluate import command_line
from fewset.runtime.devices import device_name, pick_device
from fewset.runtime.errors import UserError

FORMAT = 1
META_TRAINING = {"way": 5, "shot": 1, "query": 15}
Record = dict[str, Any]


@dataclass(frozen=True)
class Setup:
    """What all parts share: the images, the model with random weights, and how it is measured.

    `size` is in pixels a side, by default 84 or what the set has. `plugins` are files of one's own, which
    the processes that measure load.
    """

    data: str = "strokes"
    backbone: str = "conv4"
    size: int | None = None
    repetitions: int = 5
    device: str = "auto"
    plugins: tuple[Path, ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        """Those of every side that computes."""
        device = str(pick_device(self.device))
        return {"data": self.data, "backbone": self.backbone, "size": self.size, "device": device}


def bench_evaluate(
    setup: Setup,
    *,
    split: str = "test",
    run: str | None = None,
    way: int = 5,
    shot: int = 1,
    query: int = 15,
    tasks: int = 10_000,
    published_tasks: int = 10,
) -> Record:
    """Score tasks by this engine and in the published way, with the same weights, on the same tasks.

    The published way is measured on `published_tasks` in each repetition and extrapolated to all `tasks`.
    The model is that of a `run`, where one is given.
    """
    repetitions = setup.repetitions
    measured = (repetitions + 1) * published_tasks
    if measured > tasks:
        raise UserError(
            f"{repetitions} repetitions (and one to warm up) of {published_tasks} tasks are {measured}, "
            f"but only {tasks} are scored; lower --published-tasks or --repetitions"
        )
    options = {**setup.options, "split": split, "run": run}
    options |= {"way": way, "shot": shot, "query": query, "tasks": tasks}
    (engine, published), record = _measure(
        setup,
        {
            "this engine": ("engine", options, True),
            "published way": ("published", {**options, "each": published_tasks}, False),
        },
    )
    share = tasks / published_tasks
    record["part"], record["options"] = "evaluate", {**options, "published_tasks": published_tasks}
    record["ratios"] = [
        _ratio(
            f"published way / this engine, {tasks:,} tasks",
            [share * slow["seconds"] / fast["seconds"] for fast, slow in zip(engine, published, strict=True)],
        ),
        _ratio(
            "the same, without decoding",
            [
                share * (slow["seconds"] - slow["loading_seconds"]) / fast["seconds"]
                for fast, slow in zip(engine, published, strict=True)
            ],
        ),
        _ratio(
            "this engine / embedding each image once",
            [one["seconds"] / one["embedding_seconds"] for one in engine],
        ),
    ]
    agreement = _agreement(engine, published, way * query)
    record["agreement"] = agreement
    record["facts"] = [
        f"{tasks:,} tasks take {_median(engine):.1f} s, of which embedding {engine[0]['images']:,} images "
        f"takes {_median(engine, 'embedding_seconds'):.1f} s",
        f"the published way would take {share * _median(published):,.0f} s, extrapolated from {repetitions} "
        f"times {published_tasks} tasks",
        f"both scored {agreement['tasks']} tasks alike: {agreement['different']} accuracies differ, by one "
        "query at most",
    ]
    return record


def bench_train(setup: Setup, *, batch: int = 128, steps: int = 1) -> Record:
    """A step of pre-training and one of meta-training, against the plain default of PyTorch."""
    options = {**setup.options, "batch": batch, "steps": steps}
    sides: dict[str, tuple[str, dict[str, Any], bool]] = {}
    names = {"pretrain": "pre-training", "train": "meta-training"}
    for kind, name in names.items():
        stage = {**options, "kind": kind, **(META_TRAINING if kind == "train" else {})}
        sides[f"{name}, this engine"] = ("training", {**stage, "plain": False}, True)
        sides[f"{name}, plain default"] = ("training", {**stage, "plain": True}, False)
    measured, record = _measure(setup, sides)
    record["part"], record["options"] = "train", options
    record["ratios"] = [
        _ratio(
            f"{name}, plain default / this engine",
            [slow["seconds"] / fast["seconds"] for fast, slow in zip(*pair, strict=True)],
        )
        for name, pair in zip(names.values(), (measured[:2], measured[2:]), strict=True)
    ]
    record["facts"] = []
    return record


def bench_data(setup: Setup, *, batch: int = 128, steps: int = 1, images: int = 200) -> Record:
    """Batches for pre-training against its steps; and the import of a folder of JPEG files."""
    options = {**setup.options, "batch": batch, "steps": steps}
    training = {**options, "kind": "pretrain", "plain": False}
    (inputs, steps_taken), record = _measure(
        setup,
        {
            "input path of pre-training": ("input", options, True),
            "step of pre-training, with its input": ("training", training, True),
        },
    )
    _, imported = _measure(setup, {"import of JPEG files": ("import", {"images": images}, True)})
    record["sides"] += imported["sides"]
    record["part"], record["options"] = "data", {**options, "images": images}
    record["ratios"] = [
        _ratio(
            "images/s of the input path / images/s of the step",
            [
                (one["images"] / one["seconds"]) / (step["images"] / step["seconds"])
                for one, step in zip(inputs, steps_taken, strict=True)
            ],
        )
    ]
    record["facts"] = ["the JPEG files are made up, 500 x 375 pixels"]
    return record


def _measure(
    setup: Setup, sides: dict[str, tuple[str, dict[str, Any], bool]]
) -> tuple[list[list[Repetition]], Record]:
    """The repetitions of each side, and the beginning of the record: sides, machine, command."""
    for _, options, _ in sides.values():
        if "data" in options:
            open_set(options["data"])  # made before the workers would make it all at once
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Worker(side, options, tuned=tuned, plugins=setup.plugins))
            for side, options, tuned in sides.values()
        ]
        measured = take_turns(workers, setup.repetitions)
        ends = [worker.finish() for worker in workers]
    machine = ends[0]["machine"]  # of a tuned process: with the number of threads that it took
    record: Record = {
        "format": FORMAT,
        "part": "",
        "options": {},
        "repetitions": setup.repetitions,
        "sides": [
            {
                "side": name,
                "images": one[0]["images"],
                "seconds": [round(repetition["seconds"], 6) for repetition in one],
                "images_per_second": round(one[0]["images"] / _median(one), 3),
                "peak_memory": end["peak_memory"],
            }
            for name, one, end in zip(sides, measured, ends, strict=True)
        ],
        "command": command_line(),
        "commit": machine.pop("commit"),
        "machine": {**machine, "device": device_name(pick_device(setup.device))},
    }
    return measured, record


def _median(repetitions: Sequence[Repetition], key: str = "seconds") -> float:
    return float(median(repetition[key] for repetition in repetitions))


def _ratio(what: str, values: Sequence[float]) -> dict[str, Any]:
    return {"what": what, "median": median(values), "low": min(values), "high": max(values)}


def _agreement(
    engine: Sequence[Repetition], published: Sequence[Repetition], queries: int
) -> dict[str, float]:
    """Both sides scored the same tasks: a query that rounding turns is all that may differ in a task."""
    differences = [
        abs(accuracy - engine[0]["accuracies"][one["first"] + place])
        for one in published
        for place, accuracy in enumerate(one["accuracies"])
    ]
    largest = max(differences)
    if largest > 1.01 / queries:
        raise RuntimeError(
            f"the two sides disagree on the accuracy of a task by {largest}: a defect, report it"
        )
    return {
        "tasks": len(differences),
        "different": sum(difference > 1e-6 for difference in differences),
        "largest": largest,
    }


PARTS: dict[str, Callable[..., Record]] = {
    "evaluate": bench_evaluate,
    "train": bench_train,
    "data": bench_data,
}
