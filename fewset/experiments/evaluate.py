"""Score a run by a protocol and write the result: its file, the value of each task, a few example tasks."""

import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np

from fewset.evaluation.protocols import (
    PROTOCOLS,
    Job,
    Outcome,
    Protocol,
    check_protocol,
    default_protocol,
)
from fewset.experiments.build import open_data
from fewset.experiments.config import Recipe
from fewset.experiments.recipes import read_recipe, recipe_digest
from fewset.experiments.result import Result, StoredScore, stored_width, write_result
from fewset.experiments.run_directory import RECIPE, RESULT, RESULTS, WEIGHTS
from fewset.experiments.weights import load
from fewset.models.task_model import TaskModel
from fewset.runtime import distributed
from fewset.runtime.devices import pick_device
from fewset.runtime.errors import UserError, unknown_name
from fewset.runtime.files import file_digest, replacing
from fewset.runtime.machine import describe
from fewset.runtime.parsing import parse, parse_words
from fewset.tasks.scores import Score


def evaluate_run(
    run: Path,
    *,
    setting: str | None = None,
    options: Mapping[str, Any] | None = None,
    data: str | None = None,
    split: str | None = None,
    domain: str | None = None,
    way: int | None = None,
    shot: int | None = None,
    query: int | None = None,
    tasks: int | None = None,
    seed: int | None = None,
    skip_small_classes: bool = False,
    device: str = "auto",
) -> tuple[Result, Path]:
    """Score a run, and write the result; returns it and its file.

    What is not given comes from the run's recipe; the setting is by default the one for what the model takes.
    `options` are those of the setting alone. The result on the recipe's own tasks, in the default setting, is
    the run's `result.json`; others go into `results/`.
    """
    own = setting_of(run)
    recipe, name = read_recipe(run / RECIPE), setting or own
    protocol = make_protocol(name, options or {})
    model = load(run).to(pick_device(device))
    numbers = {"way": way, "shot": shot, "query": query, "tasks": tasks, "seed": seed}
    job = make_job(recipe, model, data, split, domain, skip_small_classes, numbers)
    check_protocol(protocol, name, job)
    began = time.monotonic()
    outcome = protocol.evaluate(job)
    seconds = time.monotonic() - began

    environment = describe() | {"processes": distributed.world_size()}
    result = Result(
        run=recipe.name,
        method=recipe.method,
        setting=name,
        options=asdict(protocol),  # type: ignore[call-overload]
        variant=protocol.variant,
        data=job.data.name,
        data_digest=job.data.digest,
        weights_digest=file_digest(run / WEIGHTS),
        recipe_digest=recipe_digest(recipe),
        **{"split": job.split, "domain": job.domain, **asdict(job.spec), **outcome.replaced},
        mean=outcome.score.mean,
        ci95=stored_width(outcome.score.ci95),
        per_task="",
        command=command_line(),
        commit=str(environment.pop("commit")),
        versions=environment,
        seconds=round(seconds, 3),
        fields=dict(outcome.fields),
        notes=dict(outcome.notes),
        task_key=outcome.task_key,
        left_out=outcome.left_out,
    )
    plain = protocol == PROTOCOLS[own]() and not skip_small_classes
    there = (job.data.name, job.domain, job.split, job.spec)
    if plain and there == (recipe.data.set, recipe.data.domain, recipe.evaluate.split, recipe.evaluate.spec):
        file, stem = run / RESULT, ""
    else:
        stem = _stem(result)
        file = run / RESULTS / f"{stem}json"
    result = _write_arrays(result, outcome, file.parent, stem)
    distributed.on_main_process(lambda: write_result(result, file))
    return result, file


def setting_of(run: Path) -> str:
    """The setting that a run is scored in where none is named."""
    if not (run / RECIPE).exists():
        raise UserError(f"{run} is not a run directory: it has no {RECIPE}")
    return default_protocol(read_recipe(run / RECIPE).model.takes)


def protocol_options(name: str, words: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a protocol from words of the command line; those of other protocols stay as they are."""
    hints = get_type_hints(PROTOCOLS[name])
    return {
        key: parse_words(hints[key], value, f"--{key.replace('_', '-')}")
        if key in hints and isinstance(value, str)
        else value
        for key, value in words.items()
    }


def make_protocol(name: str, options: Mapping[str, Any]) -> Protocol:
    """The protocol of that name with its options; one of another protocol is an error that says whose."""
    kind = PROTOCOLS[name]
    known = {item.name for item in fields(kind)}  # type: ignore[arg-type]
    for key in options:
        if key not in known:
            flag = f"--{key.replace('_', '-')}"
            for other, its in PROTOCOLS.items():
                if key in {item.name for item in fields(its)}:  # type: ignore[arg-type]
                    raise UserError(
                        f"{flag} is not an option of the setting {name}; leave it out, or take "
                        f"--setting {other}"
                    )
            raise unknown_name(f"option of the setting {name}:", key, known)
    return parse(kind, options, what=f"setting {name}")


def make_job(
    recipe: Recipe,
    model: TaskModel,
    data: str | None = None,
    split: str | None = None,
    domain: str | None = None,
    skip_small_classes: bool = False,
    numbers: Mapping[str, int | None] | None = None,
) -> Job:
    """What a recipe's model is to be scored on; what is not given is the recipe's."""
    chosen = {key: value for key, value in (numbers or {}).items() if value is not None}
    source = open_data(recipe.model, data or recipe.data.set)
    chosen_domain = domain or (recipe.data.domain if data is None else None)
    given = {"split": split, "domain": domain, **chosen}
    return Job(
        model,
        source,
        split or recipe.evaluate.split,
        chosen_domain,
        replace(recipe.evaluate.spec, **chosen),
        hold_out=recipe.data.hold_out,
        seed=recipe.seed,
        trained_here=(source.name, chosen_domain) == (recipe.data.set, recipe.data.domain),
        skip_small_classes=skip_small_classes,
        given=frozenset(key for key, value in given.items() if value is not None),
    )


def check_evaluation(recipe: Recipe, model: TaskModel) -> None:
    """Refuse, before the training, a recipe whose own tasks cannot be drawn after it."""
    name = default_protocol(recipe.model.takes)
    check_protocol(PROTOCOLS[name](), name, make_job(recipe, model))


def command_line() -> str:
    """The command of this process, for files that say how they were made.

    Under `python -m fewset`, and so under torchrun, the program's name is that of a file in the package.
    """
    program = Path(sys.argv[0]).name
    return shlex.join(["fewset" if program == "__main__.py" else program, *sys.argv[1:]])


def _stem(result: Result) -> str:
    """The beginning of the names of the files of a result that is not on the recipe's own tasks."""
    setting = () if result.setting == "standard" else (result.setting,)
    domain = (result.domain or "").replace("→", "-to-")
    sizes = (f"{getattr(result, key)}{key}" for key in ("way", "shot", "query", "tasks"))
    skipped = "without-small-classes" if result.left_out else ""
    parts = (
        *setting,
        result.variant,
        result.data,
        domain,
        result.split,
        skipped,
        *sizes,
        f"seed{result.seed}",
    )
    return "-".join(part for part in parts if part) + "."


def _write_arrays(result: Result, outcome: Outcome, folder: Path, stem: str) -> Result:
    """Write the values of each task, and the examples; returns the result with the names of these files."""

    def stored(score: Score, name: str) -> StoredScore:
        if distributed.is_main_process():
            with replacing(folder / name) as temporary, temporary.open("wb") as file:
                np.save(file, score.per_task)
        return StoredScore(score.mean, stored_width(score.ci95), name)

    examples = None
    if outcome.examples is not None:
        examples = f"{stem}examples.npz"
        if distributed.is_main_process():
            with replacing(folder / examples) as temporary, temporary.open("wb") as file:
                np.savez_compressed(file, **outcome.examples)  # type: ignore[arg-type]
    return replace(
        result,
        per_task=stored(outcome.score, f"{stem}per_task.npy").per_task,
        before=None if outcome.before is None else stored(outcome.before, f"{stem}per_task_before.npy"),
        examples=examples,
        scores={name: stored(score, f"{stem}per_task_{name}.npy") for name, score in outcome.scores.items()},
    )
