"""Score a run by a protocol, and write the result, the values of all tasks and a few example tasks."""

import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
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
from fewset.data.features.table import FeatureTable
from fewset.data.images.importers import IMPORTERS
from fewset.data.images.store import ImageSet
from fewset.evaluation.protocols import PROTOCOLS, Job, Outcome, Protocol, default_protocol, prepare
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


class Chosen(TypedDict, total=False):
    """Options that replace those of a run's recipe; None is the same as not given."""

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

    By default all is as in the run's recipe, and the setting is the default for the model's data. `options`
    are those of the setting. With `query="auto"` there are as many queries as the smallest class has items
    for, at most those of the recipe. The result on the recipe's own tasks, in the default setting, is
    `result.json`; others go into `results/`.
    """
    recipe = run_recipe(run)
    others = inside(run, RESULTS)
    own = default_protocol(recipe.model.takes)
    name = setting or own
    protocol = make_protocol(name, options or {})
    model = load(run).to(pick_device(device))
    elsewhere = chosen.get("data") not in (None, recipe.data.set)
    data = open_data(recipe.model, chosen.get("data") or recipe.data.set)
    auto = chosen.get("query") == "auto"
    if auto:
        chosen["query"] = recipe.evaluate.query
    job = make_job(recipe, model, data, skip_small_classes, **chosen)
    job, items = _drawable(job, protocol, name, auto)
    if isinstance(data, ImageSet):
        warn_of_scale(run, recipe, data)
    began = time.monotonic()
    outcome = protocol.evaluate(job, items)
    seconds = time.monotonic() - began

    notes, nearness = {}, []
    if job.spec.related and job.images.nearness:
        source, digest = job.images.nearness.source, job.images.nearness.digest
        notes["related classes"] = f"one and others of its {job.spec.related} nearest by {source}"
        nearness.append(f"nearness {digest[:12]}")
    environment = describe() | {"processes": distributed.world_size()}
    result = Result(
        run=recipe.name,
        method=recipe.method,
        setting=name,
        options=asdict(protocol),  # type: ignore[call-overload]
        variant=protocol.label,
        data=data.name,
        data_digest=data.digest,
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
        notes={**outcome.notes, **notes},
        task_key=", ".join(filter(None, (outcome.task_key, *nearness))),
        left_out=outcome.left_out,
    )
    plain = protocol == PROTOCOLS[own]() and not skip_small_classes and not elsewhere
    tasks = (recipe.data.domain, recipe.evaluate.split, recipe.evaluate.spec)
    if plain and (job.domain, job.split, job.spec) == tasks:
        file, stem = run / RESULT, ""
    else:
        of_same_name = elsewhere and data.name == recipe.data.name
        stem = _stem(result, data.digest if of_same_name else "")
        file = others / f"{stem}json"
    return distributed.on_main_process(lambda: _write(result, outcome, file, stem)), file


def make_protocol(name: str, options: Mapping[str, Any]) -> Protocol:
    """The protocol of that name with its options, which may be words of the command line."""
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
    recipe: Recipe,
    model: TaskModel,
    source: ImageSet | FeatureTable,
    skip_small_classes: bool = False,
    **chosen: Unpack[Chosen],
) -> Job:
    """The job to score a recipe's model on the data `source`."""
    given: dict[str, Any] = {key: value for key, value in chosen.items() if value is not None}
    domain = given.get("domain", None if "data" in given else recipe.data.domain)
    spec = {key: given[key] for key in asdict(recipe.evaluate.spec) if key in given}
    return Job(
        model,
        source,
        given.get("split", recipe.evaluate.split),
        domain,
        replace(recipe.evaluate.spec, **spec),
        hold_out=recipe.data.hold_out,
        seed=recipe.seed,
        trained_here=(source.name, domain) == (recipe.data.name, recipe.data.domain),
        skip_small_classes=skip_small_classes,
        given=frozenset(given),
    )


def _drawable(job: Job, protocol: Protocol, name: str, auto: bool) -> tuple[Job, Any]:
    """The job and the items of its tasks; with `auto` with fewer queries if there are too few items."""
    for query in range(job.spec.query, 1, -1) if auto else ():
        fewer = replace(job, spec=replace(job.spec, query=query))
        with suppress(UserError):
            return fewer, prepare(protocol, name, fewer)
    job = replace(job, spec=replace(job.spec, query=1)) if auto else job
    return job, prepare(protocol, name, job)


def check_evaluation(recipe: Recipe, model: TaskModel, data: ImageSet | FeatureTable) -> None:
    """Reject, before the training, a recipe whose own tasks cannot be drawn after it."""
    name = default_protocol(recipe.model.takes)
    prepare(PROTOCOLS[name](), name, make_job(recipe, model, data))


def _stem(result: Result, digest: str = "") -> str:
    """The beginning of the file names of a result that is not on the recipe's own tasks.

    A `digest` distinguishes data from other data of the same name.
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
    """Write a result with its arrays and examples; returns it with the names of these files.

    If two processes do that at once, all files are of one of them.
    """

    def stored(score: Score, name: str) -> StoredScore:
        with replacing(file.parent / name) as temporary, temporary.open("wb") as array:
            np.save(array, score.per_task)
        return StoredScore(score.mean, stored_width(score.ci95), name)

    examples = None if outcome.examples is None else f"{stem}examples.npz"
    with in_turn(file.with_name(f".{file.name}.lock")):
        if examples is not None:
            with replacing(file.parent / examples) as temporary, temporary.open("wb") as arrays:
                np.savez_compressed(arrays, **outcome.examples)  # type: ignore[arg-type]
        others = {name: stored(each, f"{stem}per_task_{name}.npy") for name, each in outcome.scores.items()}
        result = replace(
            result,
            per_task=stored(outcome.score, f"{stem}per_task.npy").per_task,
            before=None if outcome.before is None else stored(outcome.before, f"{stem}per_task_before.npy"),
            examples=examples,
            scores=others,
        )
        write_result(result, file)
    return result


def warn_of_scale(run: Path, recipe: Recipe, images: ImageSet) -> None:
    """Warn if a set is stored at another size than the one that a run was trained on.

    A model sees the middle of a stored image, 84 of its 92 pixels for example. In a set that is stored at
    another size, objects appear at another scale, which may cost points. Some released weights do not hold
    the size; they were trained on sets that were imported with the default size.
    """
    sizes = {name: layout.size for name, layout in IMPORTERS.items()}
    trained = stored_size(run / WEIGHTS) or sizes.get(recipe.data.set, images.size)
    if trained != images.size:
        warnings.warn(
            f"{images.name!r} is stored at {images.size} px, and {run} was trained on images stored at "
            f"{trained} px, so objects appear at another scale; import the set again with --size {trained}",
            stacklevel=3,
        )
