"""Score a run by a protocol and write the result: its file, the value of each task, a few example tasks."""

import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, get_type_hints

import numpy as np

from fewset.compute import distributed
from fewset.compute.devices import pick_device
from fewset.compute.machine import describe
from fewset.core.errors import UserError, refuse_unknown
from fewset.core.names import plain_name
from fewset.core.parsing import parse, parse_words
from fewset.data.images.importers import IMPORTERS
from fewset.data.images.store import ImageSet
from fewset.evaluation.protocols import (
    PROTOCOLS,
    Job,
    Outcome,
    Protocol,
    default_protocol,
    prepare,
)
from fewset.experiments.build import open_data
from fewset.experiments.config import Recipe
from fewset.experiments.recipes import read_recipe, recipe_digest, run_recipe
from fewset.experiments.result import Result, StoredScore, command_line, stored_width, write_result
from fewset.experiments.run_directory import RECIPE, RESULT, RESULTS, WEIGHTS
from fewset.experiments.weights import load, stored_size
from fewset.io.files import file_digest, replacing
from fewset.io.locks import in_turn
from fewset.io.paths import inside
from fewset.models.task_model import TaskModel
from fewset.tasks.scores import Score

_MOST_TRIED = 500  # numbers of queries, to find one that works


class Chosen(TypedDict, total=False):
    """What a run is scored on where that is not what its recipe says; None is the same as not given."""

    data: str | None
    split: str | None
    domain: str | None
    way: int | None
    shot: int | None
    query: int | Literal["auto"] | None
    tasks: int | None
    seed: int | None
    related: int | None


def evaluate_run(
    run: Path,
    *,
    setting: str | None = None,
    options: Mapping[str, Any] | None = None,
    skip_small_classes: bool = False,
    device: str = "auto",
    **chosen: Unpack[Chosen],
) -> tuple[Result, Path]:
    """Score a run, and write the result; returns it and its file.

    What is not given comes from the run's recipe; the setting is by default the one for what the model takes.
    `options` are those of the setting alone. With the query "auto" there are as many queries as the smallest
    class has items for, up to the recipe's number. The result on the recipe's own tasks, in the default
    setting, is the run's `result.json`; others go into `results/`.
    """
    recipe = run_recipe(run)
    others = inside(run, RESULTS)
    own = default_protocol(recipe.model.takes)
    name = setting or own
    protocol = make_protocol(name, options or {})
    model = load(run).to(pick_device(device))
    auto = chosen.get("query") == "auto"
    if auto:
        chosen["query"] = recipe.evaluate.query
    job, items = _drawable(make_job(recipe, model, skip_small_classes, **chosen), protocol, name, auto)
    if isinstance(job.data, ImageSet):
        warn_of_scale(run, recipe, job.data)
    began = time.monotonic()
    outcome = protocol.evaluate(job, items)
    seconds = time.monotonic() - began

    environment = describe() | {"processes": distributed.world_size()}
    result = Result(
        run=recipe.name,
        method=recipe.method,
        setting=name,
        options=asdict(protocol),  # type: ignore[call-overload]
        variant=protocol.label,
        data=job.data.name,
        data_digest=job.data.digest,
        weights_digest=file_digest(run / WEIGHTS),
        recipe_digest=recipe_digest(read_recipe(run / RECIPE)),
        **{"split": job.split, "domain": job.domain, **asdict(job.spec), **outcome.replaced},
        mean=outcome.score.mean,
        ci95=stored_width(outcome.score.ci95),
        per_task="",
        command=command_line(),
        commit=str(environment.pop("commit")),
        versions=environment,
        seconds=round(seconds, 3),
        fields=dict(outcome.fields),
        notes={**outcome.notes, **_nearness_note(job)},
        task_key=", ".join(filter(None, (outcome.task_key, _nearness_key(job)))),
        left_out=outcome.left_out,
    )
    plain = protocol == PROTOCOLS[own]() and not skip_small_classes
    there = (job.data.name, job.domain, job.split, job.spec)
    other = _is_another(job, recipe)
    if (
        plain
        and not other
        and there == (recipe.data.name, recipe.data.domain, recipe.evaluate.split, recipe.evaluate.spec)
    ):
        file, stem = run / RESULT, ""
    else:
        stem = _stem(result, job.data.digest if other else "")
        file = others / f"{stem}json"
    return distributed.on_main_process(lambda: _write(result, outcome, file, stem)), file


def _nearness_key(job: Job) -> str:
    """Which nearness tasks of related classes were drawn by."""
    return f"nearness {job.images.nearness.digest[:12]}" if job.spec.related and job.images.nearness else ""


def _nearness_note(job: Job) -> dict[str, str]:
    if not job.spec.related or not job.images.nearness:
        return {}
    source = job.images.nearness.source
    return {"related classes": f"one and others of its {job.spec.related} nearest by {source}"}


def make_protocol(name: str, options: Mapping[str, Any]) -> Protocol:
    """The protocol of that name with its options, which may be words of the command line.

    An option of another protocol is an error that says whose it is.
    """
    kind, hints = PROTOCOLS[name], get_type_hints(PROTOCOLS[name])
    known = {other: {item.name for item in fields(its)} for other, its in PROTOCOLS.items()}  # type: ignore[arg-type]
    values = {}
    for key, value in options.items():
        flag = f"--{key.replace('_', '-')}"
        owner = next((other for other in known if key in known[other]), None)
        if key not in known[name] and owner is not None:
            raise UserError(
                f"{flag} is not an option of the setting {name}; leave it out, or take --setting {owner}"
            )
        refuse_unknown(f"option of the setting {name}:", key, known[name])
        values[key] = parse_words(hints[key], value, flag) if isinstance(value, str) else value
    return parse(kind, values, what=f"setting {name}")


def make_job(
    recipe: Recipe, model: TaskModel, skip_small_classes: bool = False, **chosen: Unpack[Chosen]
) -> Job:
    """What a recipe's model is to be scored on."""
    given: dict[str, Any] = {key: value for key, value in chosen.items() if value is not None}
    source = open_data(recipe.model, given.get("data", recipe.data.set))
    domain = given.get("domain", None if "data" in given else recipe.data.domain)
    numbers = {key: given[key] for key in asdict(recipe.evaluate.spec) if key in given}
    return Job(
        model,
        source,
        given.get("split", recipe.evaluate.split),
        domain,
        replace(recipe.evaluate.spec, **numbers),
        hold_out=recipe.data.hold_out,
        seed=recipe.seed,
        trained_here=(source.name, domain) == (recipe.data.name, recipe.data.domain),
        skip_small_classes=skip_small_classes,
        given=frozenset(given),
    )


def _drawable(job: Job, protocol: Protocol, name: str, auto: bool) -> tuple[Job, Any]:
    """The job and the items of its tasks; with `auto`, with fewer queries if the items are too few."""
    try:
        return job, prepare(protocol, name, job)
    except UserError as error:
        problem = error
    for count in range(min(job.spec.query - 1, _MOST_TRIED), 0, -1):
        fewer = replace(job, spec=replace(job.spec, query=count))
        try:
            items = prepare(protocol, name, fewer)
        except UserError:
            continue
        if auto:
            return fewer, items
        raise UserError(f"{problem}; --query {count} works, and --query auto takes it")
    raise problem


def check_evaluation(recipe: Recipe, model: TaskModel) -> None:
    """Refuse, before the training, a recipe whose own tasks cannot be drawn after it."""
    name = default_protocol(recipe.model.takes)
    prepare(PROTOCOLS[name](), name, make_job(recipe, model))


def _is_another(job: Job, recipe: Recipe) -> bool:
    """Whether the data are others than the recipe's, though of the same name."""
    if job.data.name != recipe.data.name:
        return False
    try:
        return bool(job.data.digest != open_data(recipe.model, recipe.data.set).digest)
    except UserError:  # there is no such set here
        return True


def _stem(result: Result, digest: str = "") -> str:
    """The beginning of the names of the files of a result that is not on the recipe's own tasks.

    A `digest` tells data from others of the same name.
    """
    setting = "" if result.setting == "standard" else result.setting
    domain = (result.domain or "").replace("→", "-to-")
    skipped = "without-small-classes" if result.left_out else ""
    sizes = [f"{getattr(result, key)}{key}" for key in ("way", "shot", "query", "tasks")]
    related = f"related{result.related}" if result.related else ""
    tasks = (result.data, digest[:8], domain, result.split, skipped, *sizes, f"seed{result.seed}", related)
    stem = "-".join(filter(None, (setting, result.variant, *tasks)))
    return plain_name(stem, "the result") + "."


def _write(result: Result, outcome: Outcome, file: Path, stem: str) -> Result:
    """Write a result with its arrays: all of one evaluation, though another may write them at once."""
    with in_turn(file.with_name(f".{file.name}.lock")):
        result = _write_arrays(result, outcome, file.parent, stem)
        write_result(result, file)
    return result


def _write_arrays(result: Result, outcome: Outcome, folder: Path, stem: str) -> Result:
    """Write the values of each task, and the examples; returns the result with the names of these files."""

    def stored(score: Score, name: str) -> StoredScore:
        with replacing(folder / name) as temporary, temporary.open("wb") as file:
            np.save(file, score.per_task)
        return StoredScore(score.mean, stored_width(score.ci95), name)

    examples = None
    if outcome.examples is not None:
        examples = f"{stem}examples.npz"
        with replacing(folder / examples) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **outcome.examples)  # type: ignore[arg-type]
    return replace(
        result,
        per_task=stored(outcome.score, f"{stem}per_task.npy").per_task,
        before=None if outcome.before is None else stored(outcome.before, f"{stem}per_task_before.npy"),
        examples=examples,
        scores={name: stored(score, f"{stem}per_task_{name}.npy") for name, score in outcome.scores.items()},
    )


def warn_of_scale(run: Path, recipe: Recipe, images: ImageSet) -> None:
    """Warn if a set is stored at another size than the one that a run was trained on.

    A model sees the middle of a stored image, 84 of its 92 pixels for example. In a set that is stored at
    another size, objects appear at another scale, which may cost points. Weights files of early versions do
    not hold the size; they were trained on sets as `fewset data import` stores them by default.
    """
    by_default = {name: layout.size for name, layout in IMPORTERS.items()}
    trained = stored_size(run / WEIGHTS) or by_default.get(recipe.data.set)
    if trained is None or recipe.model.scales or trained == images.size:
        return
    warnings.warn(
        f"{images.name!r} is stored at {images.size} px, and {run} was trained on images stored at {trained} "
        f"px, so objects appear at another scale; import the set again with --size {trained}",
        stacklevel=3,
    )
