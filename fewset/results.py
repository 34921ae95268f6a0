"""Score a run on tasks and write the result: `result.json`, the value of each task, a few example tasks."""

import json
import shlex
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fewset.adapters.identity import Identity
from fewset.data.store import open_set
from fewset.episode import prototypes
from fewset.episode import split as split_items
from fewset.errors import UserError
from fewset.evaluation import Score, class_index, embed_images, evaluating, score_tasks
from fewset.files import replacing, write_json
from fewset.machine import describe
from fewset.model import FewShotModel
from fewset.recipes import read_recipe
from fewset.sampling import ClassIndex, TaskSpec, sample_tasks
from fewset.training.run import RECIPE, RESULT
from fewset.weights import load

Result = dict[str, Any]


def evaluate_run(
    run: Path, *, data: str | None = None, split: str | None = None, domain: str | None = None, **tasks: int
) -> Result:
    """Score a run; what is not given (`way`, `shot`, `query`, `tasks`, `seed` too) comes from its recipe.

    The result on the recipe's own tasks is the run's `result.json`; any other goes into `results/`.
    """
    if not (run / RECIPE).exists():
        raise UserError(f"{run} is not a run directory: it has no {RECIPE}")
    recipe, model = read_recipe(run / RECIPE), load(run)
    images = open_set(data or recipe.data.set)
    spec = TaskSpec(**{**asdict(recipe.evaluate.spec), **tasks})
    split = split or recipe.evaluate.split
    domain = domain or (recipe.data.domain if data is None else None)
    began = time.monotonic()
    selection = images.select(split, domain)
    features = embed_images(model, images.images, selection.rows, title="embedding")
    index = class_index(selection)
    with evaluating(model):
        score = score_tasks(model, features, index, spec, title="scoring")
    seconds = time.monotonic() - began

    own = (recipe.data.set, recipe.evaluate.split, recipe.data.domain, recipe.evaluate.spec)
    folder, stem = run, ""
    if (data or recipe.data.set, split, domain, spec) != own:
        parts = [images.name, domain, split, f"{spec.way}way", f"{spec.shot}shot", f"{spec.query}query"]
        parts += [f"{spec.tasks}tasks", f"seed{spec.seed}"]
        folder, stem = run / "results", "-".join(part for part in parts if part) + "."
    result: Result = {
        "format": 1,
        "run": recipe.name,
        "method": recipe.method,
        "setting": "standard",
        "data": images.name,
        "data_digest": images.digest,
        "split": split,
        "domain": domain,
        **asdict(spec),
        **_write_score(score, folder / f"{stem}per_task.npy"),
        "before": None,
        "examples": None,
    }
    if not isinstance(model.adapter, Identity):
        with evaluating(model):
            before = score_tasks(unadapted(model), features, index, spec)
            examples = example_tasks(model, features, index, spec, score, before)
        result["before"] = _write_score(before, folder / f"{stem}per_task_before.npy")
        result["examples"] = f"{stem}examples.npz"
        with replacing(folder / result["examples"]) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **examples)  # type: ignore[arg-type]
    environment = describe()
    result["command"] = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
    result["commit"] = environment.pop("commit")
    result["versions"] = environment
    result["seconds"] = round(seconds, 3)
    write_json(folder / (f"{stem}json" if stem else RESULT), result)
    return result


def read_result(run: Path) -> Result:
    """The result of a run on its recipe's own tasks."""
    if not (run / RESULT).exists():
        raise UserError(
            f"{run} has no {RESULT}: finish the run with --resume, or score it with `fewset eval {run}`"
        )
    result: Result = json.loads((run / RESULT).read_text(encoding="utf-8"))
    return result


def unadapted(model: FewShotModel) -> FewShotModel:
    """The same model without its adaptation: plain prototypes of the same embeddings."""
    return FewShotModel(model.backbone, Identity(model.dim), model.head, model.average)


def example_tasks(
    model: FewShotModel,
    features: Float[Tensor, "items D"],
    index: ClassIndex,
    spec: TaskSpec,
    after: Score,
    before: Score,
) -> dict[str, np.ndarray]:
    """Four tasks to look at: where adaptation helps most, clearly, typically, and where it hurts most."""
    order = np.argsort(before.per_task - after.per_task, kind="stable")
    numbers = [int(order[round(share * (len(order) - 1))]) for share in (0.0, 0.1, 0.5, 1.0)]
    rows = np.concatenate([sample_tasks(index, spec, number, number + 1) for number in numbers])
    support, query, query_labels = split_items(features[torch.from_numpy(rows)], spec.shot)
    adapted = prototypes(model.adapt(support, query if model.transductive else None))
    return {
        "task": np.array(numbers),
        "query": query.numpy(),
        "query_labels": query_labels.numpy(),
        "before": prototypes(support).numpy(),
        "after": adapted.numpy(),
        "accuracy_before": before.per_task[numbers],
        "accuracy_after": after.per_task[numbers],
    }


def _write_score(score: Score, path: Path) -> Result:
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.save(file, score.per_task)
    return {"mean": score.mean, "ci95": score.ci95, "per_task": path.name}
