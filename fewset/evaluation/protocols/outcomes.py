"""Each setting of the paper, from the same description of what is to be scored.

A setting is one function from a `Job` (low-shot: a `TableJob`) to an `Outcome`; its keyword arguments are its
own options.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from fewset.data.features.table import SETUPS, FeatureTable
from fewset.data.images.store import ImageSet
from fewset.evaluation.calibration import Curve
from fewset.evaluation.embedding import embed_images, evaluating
from fewset.evaluation.protocols.cross_domain import cross_domains
from fewset.evaluation.protocols.generalised import Table, evaluate_generalised
from fewset.evaluation.protocols.low_shot import LowShotSpec, choose_prior, evaluate_low_shot
from fewset.evaluation.protocols.transductive import METHODS, evaluate_transductive
from fewset.evaluation.scoring import class_index, score_tasks
from fewset.models.adapters.identity import Identity
from fewset.models.model import FewShotModel, embedding_model
from fewset.models.task_model import TaskModel
from fewset.runtime.errors import UserError, unknown_name
from fewset.tasks.episode import prototypes
from fewset.tasks.episode import split as split_items
from fewset.tasks.sampling import ClassIndex, sample_tasks
from fewset.tasks.scores import Score
from fewset.tasks.spec import TaskSpec


@dataclass(frozen=True, eq=False)
class Job:
    """A model and the tasks to score it on, with what its training says about the items."""

    model: TaskModel
    images: ImageSet
    split: str
    domain: str | None
    spec: TaskSpec
    hold_out: float = 0.0
    """The share of the train split that the model was not trained on, drawn with `seed`."""
    seed: int = 0

    def embed(self, rows: Int[np.ndarray, "n"]) -> Shaped[Tensor, "n D"]:
        return embed_images(self.model, self.images.images, rows, title="embedding")


@dataclass(frozen=True, eq=False)
class TableJob:
    """A model on a table of features. Of `spec`, shot, tasks (the trials) and seed count: the way is the
    number of unseen classes, and every query of the table is scored."""

    model: FewShotModel
    table: FeatureTable
    spec: TaskSpec


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a setting gives: the headline score, and what else it has to say."""

    score: Score
    scores: dict[str, Score] = field(default_factory=dict)
    before: Score | None = None
    """The score without adaptation, with `examples` of tasks to look at."""
    examples: dict[str, np.ndarray] | None = None
    words: tuple[str, ...] = ()
    """What tells this outcome from others of its setting, for the name of a file."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Further fields of the result file."""


def standard(job: Job) -> Outcome:
    """Tasks of one split."""
    selection = job.images.select(job.split, job.domain)
    return _plain(job, job.embed(selection.rows), class_index(selection))


def cross_domain(job: Job, *, support_domain: str | None = None, query_domain: str | None = None) -> Outcome:
    """Shots of one domain, queries of the same or another."""
    if support_domain is None or query_domain is None:
        domains = ", ".join(job.images.domain_names) or "none"
        raise UserError(
            "the setting cross-domain needs --support-domain and --query-domain; "
            f"domains of {job.images.name!r}: {domains}"
        )
    crossing = cross_domains(job.images, job.split, support_domain, query_domain)
    outcome = _plain(job, job.embed(crossing.rows), crossing.index)
    outcome.fields["domain"] = f"{support_domain}→{query_domain}"
    return outcome


def transductive(job: Job, *, variant: str = "dagger") -> Outcome:
    """Tasks of one split, the queries of each classified together."""
    if variant not in METHODS:
        raise unknown_name("variant", variant, METHODS)
    model = embedding_model(job.model, "the setting transductive")
    selection = job.images.select(job.split, job.domain)
    score = evaluate_transductive(
        model,
        job.embed(selection.rows),
        class_index(selection),
        job.spec,
        METHODS[variant],
        title="scoring",
    )
    return Outcome(score, words=(variant,), fields={"variant": variant})


def generalised(
    job: Job,
    *,
    fixed_seen: bool = False,
    seen_query: int | None = None,
    objective: str = "harmonic",
    validation_tasks: int = 600,
) -> Outcome:
    """Seen and unseen classes together. The headline is the paper's COMBINED, at the calibrated constant."""
    model = embedding_model(job.model, "the setting generalised")
    _check_held_out(job)
    train, val, test = (_table(job, split) for split in ("train", "val", "test"))
    found = evaluate_generalised(
        model,
        train,
        val,
        test,
        job.spec,
        share=job.hold_out,
        seed=job.seed,
        seen_query=seen_query,
        adapt_seen=not fixed_seen,
        objective=objective,
        validation_tasks=validation_tasks,
        title="scoring",
    )
    options = {"fixed-seen": fixed_seen, f"seen-query{seen_query}": seen_query is not None}
    options |= {
        objective: objective != "harmonic",
        f"calibrated-on{validation_tasks}": validation_tasks != 600,
    }
    scores = dict(vars(found.calibrated))
    for name in ("combined", "seen_among_all", "unseen_among_all", "harmonic"):
        scores[f"uncalibrated_{name}"] = getattr(found.uncalibrated, name)
    return Outcome(
        found.calibrated.combined,
        scores,
        words=tuple(word for word, said in options.items() if said),
        fields={
            "seen": f"{job.hold_out} held out with seed {job.seed}"
            + (f", {seen_query} queries a class" if seen_query else ""),
            "fixed_seen": fixed_seen,
            "calibration": {
                "constant": _number(found.constant),
                "objective": objective,
                "tasks": validation_tasks,
            },
            "curve": _curve(found.curve),
        },
    )


def low_shot(job: TableJob, *, prior: float | str = LowShotSpec.prior, setup: str | None = None) -> Outcome:
    """A few shots of each unseen class beside all seen classes. The headline is top-5 among all classes.

    `prior` is that of unseen classes, or "auto": chosen on the validation setup, for the test setup.
    """
    if setup is not None and setup not in SETUPS[1:]:
        raise unknown_name("setup", setup, SETUPS[1:])
    spec = LowShotSpec((job.spec.shot,), job.spec.tasks, job.spec.seed, setup=setup)  # type: ignore[arg-type]
    spec = replace(spec, prior=_prior(job, prior, spec))
    scores = evaluate_low_shot(job.model, job.table, spec)[job.spec.shot]
    seen, unseen = (job.table.classes(split, spec.setup) for split in ("seen", "unseen"))
    queries = len(job.table.rows(np.concatenate([seen, unseen]), "test"))
    return Outcome(
        scores["top5_all"],
        scores,
        words=(f"prior{spec.prior}",),
        fields={
            "split": setup or "all",
            "way": len(unseen),
            "seen_classes": len(seen),
            "query": round(queries / (len(seen) + len(unseen))),  # where classes differ, the mean
            "queries": queries,
            "prior": spec.prior,
        },
    )


def _prior(job: TableJob, prior: float | str, spec: LowShotSpec) -> float:
    if prior != "auto":
        try:
            return float(prior)
        except ValueError:
            raise UserError(f"prior is {prior!r}, expected a probability from 0 to 1, or auto") from None
    if not (job.table.setups == SETUPS.index("validation")).any():
        raise UserError(
            f"the table {job.table.name!r} has no validation setup to choose the prior on; "
            "give the prior as a number"
        )
    if spec.setup != "test":
        raise UserError(
            "the prior is chosen on the classes of the validation setup, so it is for the others alone; "
            "give --setup test, or the prior as a number"
        )
    return choose_prior(job.model, job.table, spec)


SETTINGS: dict[str, Callable[..., Outcome]] = {
    "standard": standard,
    "transductive": transductive,
    "generalised": generalised,
    "cross-domain": cross_domain,
    "low-shot": low_shot,
}


def setting_function(setting: str, options: dict[str, Any]) -> Callable[..., Outcome]:
    """The function of a setting, or an error if there is none such or if an option is not its own."""
    if setting not in SETTINGS:
        raise unknown_name("setting", setting, SETTINGS)
    owners = {
        option: name
        for name, function in SETTINGS.items()
        for option in inspect.signature(function).parameters
    }
    for option in options:
        if option not in inspect.signature(SETTINGS[setting]).parameters:
            raise UserError(
                f"--{option.replace('_', '-')} is not an option of the setting {setting}; "
                f"leave it out, or take --setting {owners[option]}"
            )
    return SETTINGS[setting]


def unadapted(model: FewShotModel) -> FewShotModel:
    """The same model without its adaptation: plain prototypes of the same embeddings."""
    return FewShotModel(model.backbone, Identity(model.dim), model.head, model.average)


def _plain(job: Job, features: Shaped[Tensor, "items D"], index: ClassIndex) -> Outcome:
    with evaluating(job.model):
        score = score_tasks(job.model, features, index, job.spec, title="scoring")
        if not job.model.capabilities.adapts:
            return Outcome(score)
        model = embedding_model(job.model, "adaptation")
        before = score_tasks(unadapted(model), features, index, job.spec)
        examples = _example_tasks(model, job.spec, features, index, score, before)
    return Outcome(score, before=before, examples=examples)


def _example_tasks(
    model: FewShotModel,
    spec: TaskSpec,
    features: Shaped[Tensor, "items D"],
    index: ClassIndex,
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
        "query": query.cpu().numpy(),
        "query_labels": query_labels.cpu().numpy(),
        "before": prototypes(support).cpu().numpy(),
        "after": adapted.cpu().numpy(),
        "accuracy_before": before.per_task[numbers],
        "accuracy_after": after.per_task[numbers],
    }


def _check_held_out(job: Job) -> None:
    if job.split != "test":
        raise UserError(
            f"the setting generalised calibrates on val and scores on test, got split {job.split!r}; "
            "leave out --split"
        )
    if not job.hold_out:
        raise UserError(
            "this run was trained on every item of the seen classes, so there are no queries of them left; "
            "pre-train and train it with --set data.hold_out=0.25"
        )
    if job.images.origins is not None and job.domain is None:
        raise UserError(
            f"items of {job.images.name!r} in different domains have one origin, so that held-out items are "
            "known from others; train and score within one domain (data.domain)"
        )


def _table(job: Job, split: str) -> Table:
    selection = job.images.select(split, job.domain)
    return Table(job.embed(selection.rows), selection.labels, selection.class_names)


def _curve(curve: Curve) -> dict[str, Any]:
    return {
        "constants": [_number(value) for value in curve.constants.tolist()],
        "seen": curve.seen.tolist(),
        "unseen": curve.unseen.tolist(),
        "area": curve.area,
    }


def _number(value: float) -> float | str:
    """JSON has no infinity: it is written as "inf" or "-inf", which `float` reads."""
    return str(value) if np.isinf(value) else value
