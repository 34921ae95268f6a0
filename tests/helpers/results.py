"""Run directories made up by code, in the layout that `fewset train` writes. Every size is another prime."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

TASKS, EXAMPLES, QUERIES, WAY, DIM, EPOCHS = 41, 3, 37, 5, 11, 7

MakeRun = Callable[..., Path]
RECORD: dict[str, Any] = {
    "method": "ProtoNet", "setting": "standard", "options": {}, "variant": "", "data": "strokes",
    "data_digest": "sha256:0123", "weights_digest": "89ab", "recipe_digest": "cdef", "split": "test",
    "domain": None, "way": WAY, "shot": 1, "query": 13, "seed": 0, "per_task": "per_task.npy",
    "before": None, "examples": None, "command": "fewset eval", "commit": "c0ffee",
    "versions": {"torch": "2.13.0"}, "seconds": 4.2,
}  # fmt: skip
"""The fields of a result but for the run and its score."""


def write_result(file: Path, **changes: Any) -> None:
    """Change fields of a result file."""
    record = json.loads(file.read_text())
    file.write_text(json.dumps(record | changes))


def per_task(seed: int, mean: float = 0.6, tasks: int = TASKS) -> np.ndarray:
    return np.random.default_rng(seed).uniform(mean - 0.3, mean + 0.3, tasks).astype(np.float32)


def naive_score(values: np.ndarray) -> dict[str, float]:
    count = len(values)
    mean = sum(float(value) for value in values) / count
    variance = sum((float(value) - mean) ** 2 for value in values) / (count - 1)
    return {"mean": mean, "ci95": student.ppf(0.975, count - 1) * variance**0.5 / count**0.5}


def example_arrays(seed: int = 0) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {
        "task": np.array([2, 23, 31]),
        "query": generator.normal(size=(EXAMPLES, QUERIES, DIM)).astype(np.float32),
        "query_labels": generator.integers(WAY, size=(EXAMPLES, QUERIES)),
        "before": generator.normal(size=(EXAMPLES, WAY, DIM)).astype(np.float32),
        "after": 17 * generator.normal(size=(EXAMPLES, WAY, DIM)).astype(np.float32),
        "accuracy_before": np.array([0.25, 0.75, 0.5], dtype=np.float32),
        "accuracy_after": np.array([0.5, 0.125, 0.5], dtype=np.float32),
    }


def write_run(
    folder: Path,
    name: str = "proto",
    values: np.ndarray | None = None,
    before: np.ndarray | None = None,
    **fields: Any,
) -> Path:
    """A run directory; `before` (per-task values without adaptation) makes it one with adaptation."""
    run = folder / name
    run.mkdir(parents=True)
    values = per_task(0) if values is None else values
    np.save(run / "per_task.npy", values)
    record = {"format": 2, **RECORD, "run": name, "tasks": len(values), **naive_score(values)}
    record["command"] = f"fewset train {name}"
    if before is not None:
        np.save(run / "per_task_before.npy", before)
        record["before"] = {**naive_score(before), "per_task": "per_task_before.npy"}
        np.savez(run / "examples.npz", **example_arrays())
        record["examples"] = "examples.npz"
    (run / "result.json").write_text(json.dumps(record | fields))
    rows = [
        {"epoch": n, "step": 100 * n, "loss": 1 / n, "accuracy": 0.1 * n, "val_accuracy": 0.05 * n,
         "val_ci95": 0.01, "seconds": 2.0 * n, "best": n <= 5}
        for n in range(1, EPOCHS + 1)
    ]  # fmt: skip
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run / "recipe.toml").write_text(f'name = "{name}"\nseed = 3\n[train.optimiser]\nlr = 0.01\n')
    return run
