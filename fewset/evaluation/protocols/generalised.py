"""Generalised few-shot learning: queries are of seen and of unseen classes, and so are the possible answers.

Section 5.3.3 of the paper and supplement D.5. A task has its own `way` unseen classes, given by their
support, beside all seen classes, given by the prototypes of their training items. Queries of the seen
classes are items that were held out of the training (`fewset.tasks.hold_out.hold_out`).

==========  ===================  ==============================================================
measure     queries of           possible answers
==========  ===================  ==============================================================
SEEN        the seen classes     the seen classes (64-way on miniImageNet)
UNSEEN      the task's classes   the task's classes (5-way)
COMBINED    both                 both (69-way), the seen scores less a calibration constant
==========  ===================  ==============================================================

The calibration constant is chosen on validation tasks (`fewset.evaluation.seen_unseen_calibration`).
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from fewset.core.errors import UserError, refuse_unknown
from fewset.evaluation.controls import set_adds_fields
from fewset.evaluation.embedding import evaluating
from fewset.evaluation.protocols import Job, Outcome, Protocol, option, register_protocol
from fewset.evaluation.scoring import task_chunks
from fewset.evaluation.seen_unseen_calibration import (
    OBJECTIVES,
    Margins,
    calibrate,
    curve,
    json_number,
    scores_at,
)
from fewset.models.model import FewShotModel
from fewset.tasks.episode import class_major_labels, prototypes, split
from fewset.tasks.hold_out import hold_out
from fewset.tasks.items import Items
from fewset.tasks.sampling import ClassIndex, sample_every_class, sample_tasks
from fewset.tasks.scores import ALONE
from fewset.tasks.spec import TaskSpec


@register_protocol("generalised")
@dataclass(frozen=True)
class GeneralisedProtocol(Protocol):
    """Seen and unseen classes together. The headline is the paper's COMBINED, at the calibrated constant."""

    fixed_seen: bool = option(False, "Leave the prototypes of the seen classes unadapted.")
    seen_query: int | None = option(None, "Queries a seen class; default: as --query.")
    objective: str = option("harmonic", "What the constant maximises: harmonic or combined.")
    validation_tasks: int = option(600, "Tasks that the constant is chosen on.")

    takes: ClassVar = "images"
    needs_embeddings: ClassVar = True

    def prepare(self, job: Job) -> tuple[Items, Items]:
        """The items of the validation split and those of the test split."""
        refuse_unknown("objective", self.objective, OBJECTIVES)
        if min(self.validation_tasks, self.seen_query or 1) < 1:
            raise UserError("--validation-tasks and --seen-query must be 1 or more")
        if job.embedding_model.capabilities.adapts_queries:
            raise UserError(
                "this model's adapter changes queries by the set of each task; take another adapter"
            )
        if not job.trained_here or job.split != "test":
            raise UserError(
                "the setting generalised scores the test split of the set that the run was trained on; leave "
                "out --data, --domain and --split"
            )
        if not job.hold_out:
            raise UserError(
                "this run was trained on every item of the seen classes, so there are no queries of them "
                "left; pre-train and train it with --set data.hold_out=0.25"
            )
        if job.images.origins is not None and job.domain is None:
            raise UserError(
                f"the domains of {job.images.name!r} show the same objects, so training has seen held-out "
                "items; train and score within one domain (data.domain)"
            )
        return job.items("val"), job.items("test")

    def evaluate(self, job: Job, items: tuple[Items, Items]) -> Outcome:
        """Choose the constant on tasks of the validation split, then score tasks of the test split.

        Half of the held-out items are queries of the validation tasks, the other half of the test tasks.
        """
        val, test = items
        train = job.images.select("train", job.domain)
        features = job.embed(train)
        parts = hold_out(train.labels, job.hold_out, job.seed)

        on_val = Seen.of(features, train, parts.train, parts.val), job.embed(val), val.index
        on_test = Seen.of(features, train, parts.train, parts.test), job.embed(test), test.index

        def margins(model: FewShotModel) -> tuple[Margins, float]:
            """On the test tasks, and the constant that the validation tasks choose for this model."""
            chosen_on, scored = (
                generalised_margins(
                    model,
                    *each,
                    replace(job.spec, tasks=tasks),
                    seen_query=self.seen_query,
                    adapt_seen=not self.fixed_seen,
                    title="scoring",
                )
                for each, tasks in ((on_val, self.validation_tasks), (on_test, job.spec.tasks))
            )
            return scored, calibrate(chosen_on, self.objective)

        model = job.embedding_model
        full, constant = margins(model)
        calibrated, uncalibrated = (scores_at(full, each) for each in (constant, 0.0))
        alone = scores_at(*margins(model.alone())) if model.capabilities.adapts else {}
        trade_off = curve(full)
        changed = ("combined", "seen_among_all", "unseen_among_all", "harmonic")
        scores = calibrated | {f"uncalibrated_{name}": uncalibrated[name] for name in changed}
        queries = f", {self.seen_query} queries a class" if self.seen_query else ""
        return Outcome(
            calibrated["combined"],
            scores | ({ALONE: alone["combined"]} if alone else {}),
            fields={
                "constant": json_number(constant),
                "curve": trade_off,
                **set_adds_fields("combined", calibrated, alone),
            },
            notes={
                "calibration constant": f"{constant:.4g}, chosen on {self.validation_tasks:,} tasks",
                "area of the curve of seen against unseen": f"{trade_off['area']:.4f}",
            },
            task_key=f"seen: {job.hold_out} held out with seed {job.seed}{queries}",
            left_out=(*val.left_out, *test.left_out),
        )


@dataclass(frozen=True, eq=False)
class Seen:
    """The seen classes: a prototype of each, and a table of held-out items to draw queries from."""

    prototypes: Float[Tensor, "seen D"]
    features: Float[Tensor, "items D"]
    index: ClassIndex

    @classmethod
    def of(
        cls,
        features: Float[Tensor, "items D"],
        items: Items,
        train: Int[np.ndarray, " train"],
        queries: Int[np.ndarray, " queries"],
    ) -> "Seen":
        """From embeddings of items: the places of those trained on, and of queries of the same classes."""
        labels, trained = items.labels[train], features[torch.from_numpy(train)]
        means = [trained[torch.from_numpy(labels == label)].mean(0) for label in np.unique(labels)]
        index = ClassIndex(items.labels[queries], items.class_names)
        return cls(torch.stack(means), features[torch.from_numpy(queries)], index)


def generalised_margins(
    model: FewShotModel,
    seen: Seen,
    features: Float[Tensor, "items D"],
    index: ClassIndex,
    spec: TaskSpec,
    *,
    seen_query: int | None = None,
    adapt_seen: bool = True,
    chunk: int | None = None,
    title: str = "",
) -> Margins:
    """The margins of tasks that `spec` draws from `index`, the unseen classes; `features` are its items'.

    Each task has `seen_query` queries of every seen class; by default as many as of an unseen class, or as
    every class has, if that is fewer. All measures count each class alike.
    """
    if seen_query is None:
        seen_query = min(spec.query, int(seen.index.queries.min()))
    classes, dim = seen.prototypes.shape
    device = features.device
    seen_margins = np.empty((spec.tasks, classes, seen_query), dtype=np.float32)
    unseen_margins = np.empty((spec.tasks, spec.way, spec.query), dtype=np.float32)
    size = (classes * seen_query + spec.way * (spec.shot + spec.query)) * dim
    results = [seen_margins, unseen_margins]
    with evaluating(model) as model:
        for first, last in task_chunks(spec.tasks, size, chunk, title, results=results):
            rows = torch.from_numpy(sample_tasks(index, spec, first, last)).to(device)
            seen_rows = sample_every_class(seen.index, seen_query, spec.seed, first, last)
            support, query, query_labels = split(features[rows], spec.shot)
            seen_items = seen.features[torch.from_numpy(seen_rows).to(device)].flatten(1, 2)
            centres = joint_prototypes(model, seen.prototypes, support, adapt_seen).unsqueeze(2)
            scores = model.head(centres, torch.cat([seen_items, query], dim=1))
            best_seen, seen_answer = scores[..., :classes].max(dim=-1)
            best_unseen, unseen_answer = scores[..., classes:].max(dim=-1)
            margins, end = best_seen - best_unseen, seen_items.shape[1]
            seen_labels = class_major_labels(last - first, classes, seen_query, device)
            for kept, part, right in (
                (seen_margins, margins[:, :end], seen_answer[:, :end] == seen_labels),
                (unseen_margins, margins[:, end:], unseen_answer[:, end:] == query_labels),
            ):
                kept[first:last] = part.masked_fill(~right, torch.nan).reshape(-1, *kept.shape[1:]).cpu()
    return Margins(seen_margins, unseen_margins)


def joint_prototypes(
    model: FewShotModel,
    seen: Float[Tensor, "seen D"],
    support: Float[Tensor, "T N K D"],
    adapt_seen: bool = True,
) -> Float[Tensor, "T classes D"]:
    """The prototypes of the seen classes, then those of each task's own.

    They are adapted as one set, or (not `adapt_seen`) the task's own alone, as in the standard setting.
    """
    tasks, way = support.shape[:2]
    seen = seen.expand(tasks, -1, -1)
    if not adapt_seen:
        return torch.cat([seen, prototypes(model.adapt(support))], dim=1)
    if model.average == "pre":
        support = prototypes(support).unsqueeze(2)
    count = seen.shape[1]
    own = class_major_labels(tasks, way, support.shape[2], support.device) + count
    labels = torch.cat([class_major_labels(tasks, count, 1, support.device), own], dim=1)
    adapted = model.transform(torch.cat([seen, support.flatten(1, 2)], dim=1), None, labels)
    return torch.cat([adapted[:, :count], prototypes(adapted[:, count:].reshape(support.shape))], dim=1)
