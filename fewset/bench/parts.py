"""What is compared with what: the parts of `fewset bench`, and the record that each returns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np

from fewset.bench.measuring import Measuring, Record, measure_sides, median_of, ratio_of
from fewset.bench.workers import Repetition
from fewset.compute.devices import pick_device
from fewset.core.errors import UserError, refuse_unknown
from fewset.core.extras import import_extra, imports
from fewset.encoders import DEFAULT
from fewset.models.about import about_of
from fewset.models.heads import HEADS

TABLES = (64, 640)  # numbers in a row: those of the ConvNet and of ResNet-12
META_TRAINING = {"way": 5, "shot": 1, "query": 15}
ITERATIVE = (
    "cosine_layer",
    "laplacian_shot",
    "leo",
    "logistic",
    "pmn",
    "pt_map",
    "semi_prototype",
    "svm",
    "tim",
)
LARGE = ("ridge", "pt_map", "tim", "laplacian_shot")
"""The heads that are timed with larger rows, too."""


@dataclass(frozen=True)
class ModelMeasuring(Measuring):
    """The images, and the model with random weights, of the parts that train and score one.

    `size` is in pixels a side, by default 84 or what the set has.
    """

    data: str = "strokes"
    backbone: str = "conv4"
    size: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Those of every side that computes."""
        device = str(pick_device(self.device))
        return {"data": self.data, "backbone": self.backbone, "size": self.size, "device": device}


def bench_evaluate(
    setup: ModelMeasuring,
    *,
    split: str = "test",
    run: str | None = None,
    way: int = 5,
    shot: int = 1,
    query: int = 15,
    tasks: int = 10_000,
    published_tasks: int = 10,
    plain_tasks: int = 500,
) -> Record:
    """Score tasks by this engine and in the published way, with the same weights, on the same tasks.

    The published way is measured on `published_tasks` in each repetition and extrapolated to all `tasks`.
    The model is that of a `run`, where one is given. On tables of embeddings `fewset.evaluate` is compared
    with a plain loop over tasks, measured on `plain_tasks` in each repetition, with one thread.
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
    (engine, published), record = measure_sides(
        setup,
        {
            "this engine": ("engine", options, True),
            "published way": ("published", {**options, "each": published_tasks}, False),
        },
    )
    share = tasks / published_tasks
    record["part"] = "evaluate"
    record["options"] = {**options, "published_tasks": published_tasks, "plain_tasks": plain_tasks}
    record["ratios"] = [
        ratio_of(
            f"published way / this engine, {tasks:,} tasks",
            [share * slow["seconds"] / fast["seconds"] for fast, slow in zip(engine, published, strict=True)],
        ),
        ratio_of(
            "the same, without decoding",
            [
                share * (slow["seconds"] - slow["loading_seconds"]) / fast["seconds"]
                for fast, slow in zip(engine, published, strict=True)
            ],
        ),
        ratio_of(
            "this engine / embedding each image once",
            [one["seconds"] / one["embedding_seconds"] for one in engine],
        ),
    ]
    agreement = _agreement(engine, published, way * query)
    record["agreement"] = agreement
    record["facts"] = [
        f"{tasks:,} tasks take {median_of(engine):.1f} s, of which embedding {engine[0]['images']:,} images "
        f"takes {median_of(engine, 'embedding_seconds'):.1f} s",
        f"the published way would take {share * median_of(published):,.0f} s, extrapolated from "
        f"{repetitions} times {published_tasks} tasks",
        f"both scored {agreement['tasks']} tasks alike: {agreement['different']} accuracies differ, by one "
        "query at most",
    ]
    tables = _bench_tables(setup, tasks, plain_tasks, way=way, shot=shot, query=query)
    for key in ("sides", "ratios", "facts"):
        record[key] += tables[key]
    return record


def _bench_tables(setup: Measuring, tasks: int, plain_tasks: int, **sizes: int) -> Record:
    """`fewset.evaluate` on tables of embeddings against a plain loop over tasks, one thread each."""
    sides: dict[str, tuple[str, dict[str, Any], bool]] = {}
    for dim in TABLES:
        sides[f"fewset.evaluate, {dim} numbers"] = ("table", {"dim": dim, "each": tasks, **sizes}, True)
        plain = {"dim": dim, "each": plain_tasks, **sizes}
        sides[f"plain loop over tasks, {dim} numbers"] = ("plain table", plain, False)
    measured, record = measure_sides(setup, sides, threads=1)
    record["ratios"], record["facts"] = [], []
    for dim, ours, theirs in zip(TABLES, measured[::2], measured[1::2], strict=True):
        share = tasks / plain_tasks
        ratios = [share * slow["seconds"] / fast["seconds"] for fast, slow in zip(ours, theirs, strict=True)]
        record["ratios"].append(
            ratio_of(f"plain loop over tasks / fewset.evaluate, {dim} numbers, one thread", ratios)
        )
        means = [fmean(one[0]["accuracies"]) for one in (ours, theirs)]
        record["facts"].append(
            f"{tasks:,} tasks on a table of {dim} numbers take {median_of(ours):.2f} s with one thread "
            f"(accuracy {100 * means[0]:.1f} %; {100 * means[1]:.1f} % in {plain_tasks} of the plain loop)"
        )
    return record


def bench_train(setup: ModelMeasuring, *, batch: int = 128, steps: int = 1) -> Record:
    """A step of pre-training and one of meta-training, against the plain default of PyTorch."""
    options = {**setup.options, "batch": batch, "steps": steps}
    sides: dict[str, tuple[str, dict[str, Any], bool]] = {}
    names = {"pretrain": "pre-training", "train": "meta-training"}
    for kind, name in names.items():
        stage = {**options, "kind": kind, **(META_TRAINING if kind == "train" else {})}
        sides[f"{name}, this engine"] = ("training", {**stage, "plain": False}, True)
        sides[f"{name}, plain default"] = ("training", {**stage, "plain": True}, False)
    measured, record = measure_sides(setup, sides)
    record["part"], record["options"] = "train", options
    record["ratios"] = [
        ratio_of(
            f"{name}, plain default / this engine",
            [slow["seconds"] / fast["seconds"] for fast, slow in zip(*pair, strict=True)],
        )
        for name, pair in zip(names.values(), (measured[:2], measured[2:]), strict=True)
    ]
    record["facts"] = []
    return record


def bench_data(setup: ModelMeasuring, *, batch: int = 128, steps: int = 1, images: int = 200) -> Record:
    """Batches for pre-training against its steps; and the import of a folder of JPEG files."""
    options = {**setup.options, "batch": batch, "steps": steps}
    training = {**options, "kind": "pretrain", "plain": False}
    (inputs, steps_taken), record = measure_sides(
        setup,
        {
            "input path of pre-training": ("input", options, True),
            "step of pre-training, with its input": ("training", training, True),
        },
    )
    _, imported = measure_sides(setup, {"import of JPEG files": ("import", {"images": images}, True)})
    record["sides"] += imported["sides"]
    record["part"], record["options"] = "data", {**options, "images": images}
    record["ratios"] = [
        ratio_of(
            "images/s of the input path / images/s of the step",
            [
                (one["images"] / one["seconds"]) / (step["images"] / step["seconds"])
                for one, step in zip(inputs, steps_taken, strict=True)
            ],
        )
    ]
    record["facts"] = ["the JPEG files are made up, 500 x 375 pixels"]
    return record


def bench_classify(
    setup: Measuring, *, images: int = 40, photos: int = 25, width: int = 4000, height: int = 3000
) -> Record:
    """Rows of images against PyTorch's plain default, and large photos to a saved classifier.

    Every side computes with one thread; photos are decoded with as many as there are cores.
    """
    device = pick_device(setup.device)
    engines = ["torch", *(["onnxruntime"] if device.type == "cpu" and imports("onnx", "onnxruntime") else [])]
    plain = {"plain": "plain default", "plain and folded": "plain default, normalisation folded"}
    names = {engine: f"{engine}, this engine" for engine in engines} | plain
    rows, record = measure_sides(
        setup,
        {
            name: ("rows", {"engine": engine, "device": str(device), "images": images}, engine in engines)
            for engine, name in names.items()
        },
        threads=1,
    )
    measured = dict(zip(names, rows, strict=True))
    size = {"photos": photos, "width": width, "height": height}
    (fitted,), fit = measure_sides(
        setup, {"photos to a saved classifier": ("fit", {"device": str(device), **size}, True)}, threads=1
    )
    record["sides"] += fit["sides"]
    record["part"] = "classify"
    record["options"] = {"encoder": DEFAULT, "device": str(device), "images": images, **size}
    record["ratios"] = [
        ratio_of(
            f"images/s of {engine} / {name}",
            [
                slow["seconds"] / fast["seconds"]
                for fast, slow in zip(measured[engine], measured[other], strict=True)
            ],
        )
        for other, name in plain.items()
        for engine in engines
    ] + [
        ratio_of(
            "time until all photos are embedded / until the classifier is saved",
            [one["embedded_seconds"] / one["seconds"] for one in fitted],
        )
    ]
    embedded, network = median_of(fitted, "embedded_seconds"), median_of(fitted, "network_seconds")
    record["facts"] = [
        f"{photos} photos of {width:,} x {height:,} pixels (JPEG, made up) take {median_of(fitted):.2f} s to "
        f"a saved classifier: {embedded - network:.2f} s to decode and prepare them, {network:.2f} s in the "
        f"network, {median_of(fitted) - embedded:.2f} s for the rest; the encoder was loaded before",
        f"rows of all sides differ by {_row_difference(measured):.0e} at most",
    ]
    return record


def bench_serve(
    setup: Measuring,
    *,
    uploads: int = 100,
    width: int = 4000,
    height: int = 3000,
    requests: int = 1000,
    clients: int = 64,
) -> Record:
    """A server under load against its own encoder: all uploads at once, then many clients that ask.

    The encoder by itself is given the same photos, once as files and once as pixels of its size. Each side
    computes with all cores; those of the server are shared with its clients.
    """
    for module in ("fastapi", "uvicorn", "python_multipart"):
        import_extra(module, "web")
    device = str(pick_device(setup.device))
    load = {"uploads": uploads, "width": width, "height": height, "requests": requests, "clients": clients}
    alone = {"device": device, "images": requests}
    (served, *encoded), record = measure_sides(
        setup,
        {
            f"answers to {clients} clients": ("serve", {"device": device, **load}, True),
            "the encoder, the same files": ("photos", alone, True),
            "the encoder, pixels of its size": ("rows", {**alone, "engine": "default"}, True),
        },
    )
    memory = max(one["server_memory"] for one in served)
    record["sides"][0]["peak_memory"] = memory  # of the server, not of its clients
    record["part"], record["options"] = "serve", {"encoder": DEFAULT, "device": device, **load}
    record["ratios"] = [
        ratio_of(
            f"answers/s / images/s of the encoder, {given}",
            [own["seconds"] / one["seconds"] for one, own in zip(served, side, strict=True)],
        )
        for given, side in zip(("the same files", "pixels of its size"), encoded, strict=True)
    ]
    record["facts"] = [
        f"{uploads} uploads at once of photos of {served[0]['upload_bytes'] / 1e6:.1f} MB take "
        f"{median_of(served, 'upload_seconds'):.1f} s; {requests:,} questions, {clients} at a time, take "
        f"{median_of(served):.1f} s: {median_of(served, 'median_seconds'):.2f} s each in the middle, "
        f"{median_of(served, 'p99_seconds'):.2f} s for 99 of 100",
        "no photo was lost, and every answer is that of `fewset predict`: probabilities differ by "
        f"{max(one['largest_difference'] for one in served):.0e} at most",
        f"the server took {memory / 2**20:,.0f} MiB at most, and "
        f"{served[0]['server_memory_before'] / 2**20:,.0f} MiB before the first photo",
        f"the page was there {served[0]['page_seconds']:.2f} s after the encoder was loaded",
    ]
    return record


def bench_methods(
    setup: Measuring,
    *,
    heads: Sequence[str] = (),
    dim: int = 64,
    large: int = 640,
    way: int = 5,
    shot: int = 1,
    query: int = 15,
    tasks: int = 10_000,
    plain_tasks: int = 30,
) -> Record:
    """Every head (or these) on many tasks at once, against one task after another; a few with larger rows.

    One task after another is measured on `plain_tasks` in each repetition and extrapolated to all `tasks`.
    """
    chosen = heads or [name for name, head in HEADS.items() if about_of(head).takes == "embeddings"]
    for name in chosen:
        refuse_unknown("head", name, HEADS)
    size = {"device": str(pick_device(setup.device)), "way": way, "shot": shot, "query": query}
    record: Record = {"sides": []}
    ratios = []
    for name in chosen:
        options = {"head": name, "dim": dim, **size}
        (many, single), measured = measure_sides(
            setup,
            {
                f"{name}, this engine": ("many tasks", {**options, "tasks": tasks}, True),
                f"{name}, one task at a time": ("one by one", {**options, "tasks": plain_tasks}, False),
            },
        )
        record = {**measured, "sides": record["sides"] + measured["sides"]}
        share = tasks / plain_tasks
        kind = "iterative" if name in ITERATIVE else "closed form"
        values = [share * slow["seconds"] / fast["seconds"] for fast, slow in zip(many, single, strict=True)]
        ratios.append(ratio_of(f"{name} ({kind}), one task at a time / this engine", values))
    facts = []
    for name in (name for name in LARGE if name in chosen):
        options = {"head": name, "dim": large, **size, "tasks": tasks}
        side = {f"{name}, {large} numbers, this engine": ("many tasks", options, True)}
        (many,), measured = measure_sides(setup, side)
        record["sides"] = record["sides"] + measured["sides"]
        facts.append(f"{tasks:,} tasks of {name} with rows of {large} numbers take {median_of(many):.1f} s")
    record["part"] = "methods"
    record["options"] = {"heads": list(chosen), "dim": dim, "large": large, **size, "tasks": tasks}
    record["ratios"], record["facts"] = ratios, facts
    return record


def _row_difference(measured: dict[str, list[Repetition]]) -> float:
    """The largest difference between what the sides give for one image: rounding, or a defect."""
    rows = np.array([one["row"] for side in measured.values() for one in side])
    largest = float(np.ptp(rows, axis=0).max())
    if not largest <= 1e-4:
        raise RuntimeError(
            f"the sides disagree on the features of an image by {largest}: a defect, report it"
        )
    return largest


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
    "classify": bench_classify,
    "serve": bench_serve,
    "methods": bench_methods,
}
