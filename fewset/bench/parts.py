"""What is compared with what: the parts of `fewset bench`, and the record that each returns."""

from collections.abc import Callable, Sequence

import numpy as np

from fewset.bench.measuring import Measuring, Record, measure_sides, median_of, ratio_of, time_ratio
from fewset.bench.photo_sides import Fit, Rows, Start
from fewset.bench.sides import EmbeddedSplit, Import, Input, Published, Training
from fewset.bench.workers import Repetition, Side
from fewset.compute.devices import pick_device
from fewset.core.errors import UserError
from fewset.core.extras import imports
from fewset.encoders import DEFAULT

META_TRAINING = {"way": 5, "shot": 1, "query": 15}


def bench_evaluate(
    setup: Measuring,
    *,
    data: str = "strokes",
    backbone: str = "conv4",
    size: int | None = None,
    way: int = 5,
    query: int = 15,
    tasks: int = 10_000,
    published_tasks: int = 10,
) -> Record:
    """Score tasks by this engine and in the published way, with the same weights, on the same tasks.

    The published way is measured on `published_tasks` in each repetition and extrapolated to all `tasks`.
    """
    repetitions = setup.repetitions
    measured = (repetitions + 1) * published_tasks
    if measured > tasks:
        raise UserError(
            f"{repetitions} repetitions (and one to warm up) of {published_tasks} tasks are {measured}, "
            f"but only {tasks} are scored; lower --repetitions"
        )
    options = {"data": data, "backbone": backbone, "size": size, "device": str(pick_device(setup.device))}
    options |= {"split": "test", "way": way, "shot": 1, "query": query, "tasks": tasks}
    (engine, published), record = measure_sides(
        setup,
        {
            "this engine": Side(EmbeddedSplit, options),
            "published way": Side(Published, {**options, "each": published_tasks}, tuned=False),
        },
    )
    share = tasks / published_tasks
    record["part"] = "evaluate"
    record["options"] = {**options, "published_tasks": published_tasks}
    record["ratios"] = [
        time_ratio(f"published way / this engine, {tasks:,} tasks", published, engine, share),
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
    return record


def bench_train(
    setup: Measuring,
    *,
    data: str = "strokes",
    backbone: str = "conv4",
    size: int | None = None,
    batch: int = 128,
    steps: int = 1,
) -> Record:
    """A step of pre-training and one of meta-training, against the plain default of PyTorch."""
    options = {"data": data, "backbone": backbone, "size": size, "device": str(pick_device(setup.device))}
    options |= {"batch": batch, "steps": steps}
    sides: dict[str, Side] = {}
    names = {"pretrain": "pre-training", "train": "meta-training"}
    for kind, name in names.items():
        stage = {**options, "kind": kind, **(META_TRAINING if kind == "train" else {})}
        sides[f"{name}, this engine"] = Side(Training, {**stage, "plain": False})
        sides[f"{name}, plain default"] = Side(Training, {**stage, "plain": True}, tuned=False)
    measured, record = measure_sides(setup, sides)
    record["part"], record["options"] = "train", options
    record["ratios"] = [
        time_ratio(f"{name}, plain default / this engine", slow, fast)
        for name, (fast, slow) in zip(names.values(), (measured[:2], measured[2:]), strict=True)
    ]
    record["facts"] = []
    return record


def bench_data(
    setup: Measuring,
    *,
    data: str = "strokes",
    backbone: str = "conv4",
    size: int | None = None,
    batch: int = 128,
    steps: int = 1,
    images: int = 200,
) -> Record:
    """Batches for pre-training against its steps; and the import of a folder of JPEG files."""
    options = {"data": data, "backbone": backbone, "size": size, "device": str(pick_device(setup.device))}
    options |= {"batch": batch, "steps": steps}
    training = {**options, "kind": "pretrain", "plain": False}
    (inputs, steps_taken), record = measure_sides(
        setup,
        {
            "input path of pre-training": Side(Input, options),
            "step of pre-training, with its input": Side(Training, training),
        },
    )
    _, imported = measure_sides(setup, {"import of JPEG files": Side(Import, {"images": images})})
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
    """Rows of images against PyTorch's plain default, large photos to a saved classifier, one photo's answer.

    Every side computes with one thread; photos are decoded with as many as there are cores.
    """
    device = pick_device(setup.device)
    engines = ["torch", *(["onnxruntime"] if device.type == "cpu" and imports("onnx", "onnxruntime") else [])]
    plain = {"plain": "plain default", "plain and folded": "plain default, normalisation folded"}
    names = {engine: f"{engine}, this engine" for engine in engines} | plain
    rows, record = measure_sides(
        setup,
        {
            name: Side(Rows, {"engine": engine, "device": str(device), "images": images}, engine in engines)
            for engine, name in names.items()
        },
        threads=1,
    )
    measured = dict(zip(names, rows, strict=True))
    size = {"photos": photos, "width": width, "height": height}
    (fitted,), fit = measure_sides(
        setup, {"photos to a saved classifier": Side(Fit, {"device": str(device), **size})}, threads=1
    )
    starts = {"onnxruntime": "", "torch": "onnxruntime"}
    (light, heavy), start = measure_sides(
        setup,
        {
            f"predict of one photo by {engine}, processor time": Side(Start, {"hidden": hidden})
            for engine, hidden in starts.items()
        },
        threads=1,
    )
    record["sides"] += fit["sides"] + start["sides"]
    record["part"] = "classify"
    record["options"] = {"encoder": DEFAULT, "device": str(device), "images": images, **size}
    record["ratios"] = [
        time_ratio(f"images/s of {engine} / {name}", measured[other], measured[engine])
        for other, name in plain.items()
        for engine in engines
    ] + [
        ratio_of(
            "time until all photos are embedded / until the classifier is saved",
            [one["embedded_seconds"] / one["seconds"] for one in fitted],
        ),
        time_ratio("processor time of predict by torch / by onnxruntime", heavy, light),
    ]
    embedded, network = median_of(fitted, "embedded_seconds"), median_of(fitted, "network_seconds")
    record["facts"] = [
        f"{photos} photos of {width:,} x {height:,} pixels (JPEG, made up) take {median_of(fitted):.2f} s to "
        f"a saved classifier: {embedded - network:.2f} s to decode and prepare them, {network:.2f} s in the "
        f"network, {median_of(fitted) - embedded:.2f} s for the rest; the encoder was loaded before",
        f"`fewset predict` of one photo, from the start of Python to its end, takes {median_of(light):.2f} s "
        f"of the processor (user and system) with onnxruntime, {median_of(heavy):.2f} s with torch",
        f"rows of all sides differ by {_row_difference(measured):.0e} at most",
    ]
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
    """How far the accuracies of the same tasks differ; rounding may change one query of a task."""
    ours = np.array(engine[0]["accuracies"])
    differences = np.concatenate(
        [np.abs(one["accuracies"] - ours[one["first"] :][: len(one["accuracies"])]) for one in published]
    )
    largest = float(differences.max())
    if largest > 1.01 / queries:
        raise RuntimeError(f"the two sides disagree on a task's accuracy by {largest}: a defect, report it")
    return {"tasks": len(differences), "different": int((differences > 1e-6).sum()), "largest": largest}


PARTS: dict[str, Callable[..., Record]] = {
    "evaluate": bench_evaluate,
    "train": bench_train,
    "data": bench_data,
    "classify": bench_classify,
}
