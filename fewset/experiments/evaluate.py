"""Score a run on tasks and write the result: `result.json`, the value of each task, a few example tasks."""

import json
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fewset.data.features.table import FeatureTable
from fewset.evaluation.protocols.outcomes import Job, TableJob, setting_function
from fewset.experiments.build import open_data
from fewset.experiments.config import Recipe
from fewset.experiments.recipes import read_recipe
from fewset.experiments.run_directory import RECIPE, RESULT
from fewset.experiments.weights import load
from fewset.models.model import embedding_model
from fewset.runtime import distributed
from fewset.runtime.devices import pick_device
from fewset.runtime.errors import UserError
from fewset.runtime.files import replacing, write_json
from fewset.runtime.machine import describe
from fewset.tasks.scores import Score
from fewset.tasks.spec import TaskSpec

Result = dict[str, Any]


def evaluate_run(
    run: Path,
    *,
    setting: str | None = None,
    options: Mapping[str, Any] | None = None,
    data: str | None = None,
    split: str | None = None,
    domain: str | None = None,
    device: str = "auto",
    **tasks: int,
) -> Result:
    """Score a run; what is not given (`way`, `shot`, `query`, `tasks`, `seed` too) comes from its recipe.

    The setting is by default "standard", or "low-shot" for a run on a table of features. `options` are those
    of the setting alone. The result on the recipe's own tasks, in the default setting, is the run's
    `result.json`; any other goes into `results/`.
    """
    if not (run / RECIPE).exists():
        raise UserError(f"{run} is not a run directory: it has no {RECIPE}")
    recipe = read_recipe(run / RECIPE)
    default = "low-shot" if recipe.model.on_features else "standard"
    setting, options = setting or default, dict(options or {})
    outcome_of = setting_function(setting, options)
    _check(recipe, setting, {"split": split, "domain": domain, **tasks})
    trained = (recipe.data.set, recipe.data.domain)
    scored = (data or recipe.data.set, domain or (recipe.data.domain if data is None else None))
    if setting == "generalised" and scored != trained:
        raise UserError(
            "the setting generalised needs the items that the run was trained on; leave out --data, --domain"
        )
    model = load(run).to(pick_device(device))
    source = open_data(recipe.model, scored[0])
    split = split or recipe.evaluate.split
    spec = TaskSpec(**{**asdict(recipe.evaluate.spec), **tasks})
    job = (
        TableJob(embedding_model(model, "a table of features"), source, spec)
        if isinstance(source, FeatureTable)
        else Job(model, source, split, scored[1], spec, recipe.data.hold_out, recipe.seed)
    )
    began = time.monotonic()
    outcome = outcome_of(job, **options)
    seconds = time.monotonic() - began

    result: Result = {
        "format": 1,
        "run": recipe.name,
        "method": recipe.method,
        "setting": setting,
        "data": source.name,
        "data_digest": source.digest,
        "split": split,
        "domain": scored[1],
        **asdict(spec),
        **outcome.fields,
    }
    folder, stem = run, ""
    own = (default, *trained, recipe.evaluate.split, recipe.evaluate.spec)
    if options or (setting, *scored, split, spec) != own:
        folder, stem = run / "results", _stem(result, outcome.words)
    result |= _write_score(outcome.score, folder / f"{stem}per_task.npy")
    result |= {"before": None, "examples": None}
    if outcome.before is not None:
        result["before"] = _write_score(outcome.before, folder / f"{stem}per_task_before.npy")
    if outcome.examples is not None:
        result["examples"] = f"{stem}examples.npz"
        if distributed.is_main_process():
            with replacing(folder / result["examples"]) as temporary, temporary.open("wb") as file:
                np.savez_compressed(file, **outcome.examples)  # type: ignore[arg-type]
    if outcome.scores:
        result["scores"] = {
            name: _write_score(score, folder / f"{stem}per_task_{name}.npy")
            for name, score in outcome.scores.items()
        }
    environment = describe() | {"processes": distributed.world_size()}
    result["command"] = command_line()
    result["commit"] = environment.pop("commit")
    result["versions"] = environment
    result["seconds"] = round(seconds, 3)
    distributed.on_main_process(lambda: write_json(folder / (f"{stem}json" if stem else RESULT), result))
    return result


def command_line() -> str:
    """The command of this process, for files that say how they were made.

    Under `python -m fewset`, and so under torchrun, the program's name is that of a file in the package.
    """
    program = Path(sys.argv[0]).name
    return shlex.join(["fewset" if program == "__main__.py" else program, *sys.argv[1:]])


def read_result(run: Path) -> Result:
    """The result of a run on its recipe's own tasks."""
    if not (run / RESULT).exists():
        raise UserError(
            f"{run} has no {RESULT}: finish the run with --resume, or score it with `fewset eval {run}`"
        )
    result: Result = json.loads((run / RESULT).read_text(encoding="utf-8"))
    return result


def _check(recipe: Recipe, setting: str, given: Mapping[str, Any]) -> None:
    """Refuse a setting that is not for what the run takes, and what the setting leaves no choice of."""
    if setting == "cross-domain" and given["domain"] is not None:
        raise UserError(
            "cross-domain has two domains: give --support-domain and --query-domain, not --domain"
        )
    if recipe.model.on_features and setting != "low-shot":
        raise UserError(
            f"the setting {setting} is for images, but run {recipe.name!r} is on a table of features; take "
            "--setting low-shot"
        )
    if setting == "low-shot":
        if not recipe.model.on_features:
            raise UserError(
                f"the setting low-shot is for a table of features, but run {recipe.name!r} embeds images; "
                "make a table of its embeddings with `fewset embed`, and train on that"
            )
        for name in ("split", "domain", "way", "query"):
            if given.get(name) is not None:
                raise UserError(
                    f"low-shot takes every unseen class and every query of the table; leave out --{name}"
                )


def _stem(result: Result, words: tuple[str, ...]) -> str:
    """The beginning of the names of the files of a result that is not on the recipe's own tasks."""
    setting = () if result["setting"] == "standard" else (result["setting"],)
    domain = (result["domain"] or "").replace("→", "-to-")
    sizes = (f"{result[key]}{key}" for key in ("way", "shot", "query", "tasks"))
    parts = (*setting, *words, result["data"], domain, result["split"], *sizes, f"seed{result['seed']}")
    return "-".join(part for part in parts if part) + "."


def _write_score(score: Score, path: Path) -> Result:
    if distributed.is_main_process():
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.save(file, score.per_task)
    return {"mean": score.mean, "ci95": score.ci95, "per_task": path.name}
