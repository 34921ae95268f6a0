"""Large-scale low-shot recognition on a table of features (the last table of the paper's supplement).

The benchmark is that of Hariharan & Girshick (2017): of every unseen class `shot` training rows are given,
of every seen class all of them, and every query of the table is classified. Each trial draws new shots; the
result is the mean over trials. Three accuracies, each as top-5 (the paper's) and top-1:

``unseen``
    Queries of unseen classes, among the unseen classes alone.
``all``
    Queries of all classes, among all classes. Every query counts the same.
``all_with_prior``
    The same, with a prior for whether a query is of an unseen class at all (Wang et al., 2018):
    p(k | x) = p(group of k) p(k | x, group of k), where p(k | x, group) is the softmax over the scores of the
    seen, or of the unseen classes alone, and p(unseen) = `prior`. The paper says "weighted by selected set
    prior" and gives no value; 0.8 is that of Gidaris & Komodakis (2018). `choose_prior` selects it on the
    validation setup. It weighs probabilities, so the head's temperature matters.

The possible answers are one set for the set-to-set function: the unseen prototypes are adapted by themselves
for ``unseen``, and together with the seen ones for the other two. The paper does not say which set it took.

The memory does not grow with the table: rows and scores are read and computed a few megabytes at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log
from typing import ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Float64, Int, Int64
from torch import Tensor

from fewset.compute import distributed
from fewset.core.errors import UserError
from fewset.core.progress import progress
from fewset.core.randomness import mix
from fewset.data.features.table import SETUPS, FeatureTable, Setup
from fewset.evaluation.class_means import embed_rows, training_means
from fewset.evaluation.controls import set_adds_fields
from fewset.evaluation.embedding import evaluating
from fewset.evaluation.protocols import Job, Outcome, Protocol, option, register_protocol
from fewset.models.model import FewShotModel, compares_class_means
from fewset.models.task_model import device_of
from fewset.tasks.episode import prototypes
from fewset.tasks.scores import ALONE, Score
from fewset.tasks.spec import TaskSpec

_TOP = (1, 5)
MEASURES = ("unseen", "all", "all_with_prior")
PRIORS = tuple(number / 10 for number in range(1, 10))

_CHUNK_SIZE = 2**21  # values of features, or of scores, at once: 8 MB


@register_protocol("low-shot")
@dataclass(frozen=True)
class LowShot(Protocol):
    """A few shots of each unseen class beside all seen classes. The headline is top-5 among all classes.

    Of the job's tasks, shot, tasks (the trials) and seed count: the way is the number of unseen classes, and
    every query of the table is scored.
    """

    prior: float | Literal["auto"] = option(
        0.8, "The probability that a query is of an unseen class, or auto: chosen on the validation setup."
    )
    setup: Setup | None = option(
        None, "The classes of one setup, validation or test; default: all classes of the table."
    )

    takes: ClassVar = "features"
    default_for: ClassVar = "features"
    fixed: ClassVar = dict.fromkeys(
        ("split", "domain", "way", "query", "related"),
        "low-shot takes every unseen class and every query of the table",
    )

    def __post_init__(self) -> None:
        if self.prior != "auto" and not 0 <= self.prior <= 1:
            raise UserError(f"prior is {self.prior}, expected a probability from 0 to 1")

    @property
    def label(self) -> str:
        return f"prior{self.prior}"

    def prepare(self, job: Job) -> None:
        check_model(job.embedding_model)
        has_validation = (job.table.setups == SETUPS.index("validation")).any()
        if self.prior == "auto" and not (self.setup == "test" and has_validation):
            raise UserError(
                "the prior is chosen on the table's validation setup, so the other classes alone can be "
                "scored; give --setup test, or the prior as a number"
            )
        job.table.draw(job.table.classes("unseen", self.setup), job.spec.shot, 0)

    def evaluate(self, job: Job, items: None) -> Outcome:  # noqa: ARG002
        def score(model: FewShotModel) -> tuple[dict[str, Score], float]:
            prior = choose_prior(model, job.table, job.spec) if self.prior == "auto" else self.prior
            return evaluate_low_shot(model, job.table, job.spec, prior, self.setup), prior

        model = job.embedding_model
        scores, prior = score(model)
        alone = score(model.alone())[0] if model.capabilities.adapts else {}
        seen, unseen = (job.table.classes(split, self.setup) for split in ("seen", "unseen"))
        classes = np.concatenate([seen, unseen])
        queries = len(job.table.rows(classes, "test"))
        return Outcome(
            scores["top5_all"],
            scores | ({ALONE: alone["top5_all"]} if alone else {}),
            fields={
                "seen_classes": len(seen),
                "queries": queries,
                "prior": prior,
                **set_adds_fields("top5_all", scores, alone),
            },
            notes={"prior of unseen classes": str(prior), "seen classes": f"{len(seen):,}"},
            replaced={
                "split": self.setup or "all",
                "way": len(unseen),
                "query": round(queries / len(classes)),
            },
        )


def evaluate_low_shot(
    model: FewShotModel,
    table: FeatureTable,
    spec: TaskSpec,
    prior: float = 0.8,
    setup: Setup | None = None,
) -> dict[str, Score]:
    """The scores "top5_unseen", "top5_all", "top5_all_with_prior" and the same as "top1_…".

    `per_task` of a score has one value a trial. `setup` takes one half of the benchmark's classes; None takes
    all. Call `fit_centre(model, table)` first if the model's input needs it.
    """
    accuracies = _accuracies(model, table, spec, (prior,), setup)
    return {
        f"top{top}_{measure}": Score.of(accuracies[:, place, column].astype(np.float32))
        for column, measure in enumerate(MEASURES)
        for place, top in enumerate(_TOP)
    }


def choose_prior(
    model: FewShotModel, table: FeatureTable, spec: TaskSpec, priors: Sequence[float] = PRIORS
) -> float:
    """The prior with the best top-5 accuracy on the validation setup, over all trials of `spec`."""
    accuracies = _accuracies(model, table, spec, priors, "validation")
    return priors[int(accuracies[:, _TOP.index(5), 2:].mean(axis=0).argmax())]


def check_model(model: FewShotModel) -> None:
    """Raise for a model that does not compare queries with class means that are adapted without them."""
    can = model.capabilities
    if not compares_class_means(model):
        raise UserError(
            f"low-shot compares with class means, and the model's head is {type(model.head).__name__}; take "
            "the head 'prototype' (SimpleShot is feature_transform = ['centre', 'l2'])"
        )
    if can.adapts_queries or model.transductive or (model.average == "post" and can.adapts):
        raise UserError(
            "low-shot adapts class means without the queries; take average='pre', transductive=false and an "
            "adapter that leaves queries as they are"
        )


def _accuracies(
    model: FewShotModel,
    table: FeatureTable,
    spec: TaskSpec,
    priors: Sequence[float],
    setup: Setup | None,
) -> Float[np.ndarray, "trials top metrics"]:
    """On unseen classes, on all, and on all with each of the priors."""
    check_model(model)
    seen, unseen = table.classes("seen", setup), table.classes("unseen", setup)
    classes = np.concatenate([seen, unseen])
    chunk = max(1, _CHUNK_SIZE // max(table.dim, len(classes)))
    queries = table.rows(classes, "test")
    for empty in np.setdiff1d(classes, table.labels[queries]):
        name = table.class_names[empty]
        raise UserError(f"class {name!r} of {table.name!r} has no queries, expected at least one")
    accuracies = np.empty((spec.tasks, len(_TOP), 2 + len(priors)))
    begin, end = distributed.shard(spec.tasks, 1)  # several processes: each a part of them
    with evaluating(model) as model, progress("low-shot trials", end - begin) as advance:
        first, last = distributed.shard(len(seen), 1)
        seen_means = training_means(model, table, seen[first:last], chunk)
        seen_means = distributed.all_gather_rows(seen_means, len(seen), 1)
        for trial, _ in distributed.own_chunks(spec.tasks, 1):
            shots = table.draw(unseen, spec.shot, mix(spec.seed, trial))
            rows = torch.from_numpy(table.read(shots.reshape(-1))).to(device_of(model))
            unseen_means = prototypes(embed_rows(model, rows).view(1, *shots.shape, -1))[0]
            accuracies[trial] = _score(
                model, table, queries, classes, seen_means, unseen_means, priors, chunk
            )
            advance(1)
    distributed.all_gather_shards_(accuracies, 1)
    return accuracies


def _score(
    model: FewShotModel,
    table: FeatureTable,
    queries: Int64[np.ndarray, " M"],
    classes: Int64[np.ndarray, " N"],
    seen_means: Float[Tensor, "S D"],
    unseen_means: Float[Tensor, "U D"],
    priors: Sequence[float],
    chunk: int,
) -> Float64[np.ndarray, "top metrics"]:
    """The accuracies of one trial; the classes are the seen ones, then the unseen."""
    seen = len(seen_means)
    alone = model.adapt(unseen_means[None, :, None])
    joint = model.adapt(torch.cat([seen_means, unseen_means])[None, :, None])
    hits = np.zeros((len(_TOP), 2 + len(priors)))
    of_unseen = 0
    for rows, features in table.chunks(queries, chunk):
        query = embed_rows(model, torch.from_numpy(features).to(joint.device))[None]
        targets = torch.from_numpy(table.places(classes, rows)).to(joint.device)
        novel = targets >= seen
        scores = model.head(joint, query)[0]
        ranks = [
            ranking(model.head(alone, query[:, novel])[0], targets[novel] - seen),
            ranking(scores, targets),
            *(ranking(with_prior(scores, seen, prior), targets) for prior in priors),
        ]
        hits += [[int((rank < top).sum()) for rank in ranks] for top in _TOP]
        of_unseen += int(novel.sum())
    return hits / ([of_unseen] + [len(queries)] * (1 + len(priors)))


def with_prior(scores: Float[Tensor, "M N"], seen: int, prior: float) -> Float[Tensor, "M N"]:
    """Log-probabilities, when a query is of a class behind the first `seen` with probability `prior`."""
    groups = (scores[:, :seen], 1 - prior), (scores[:, seen:], prior)
    parts = [group.log_softmax(-1) + (log(share) if share else -inf) for group, share in groups]
    return torch.cat(parts, dim=-1)


def ranking(scores: Float[Tensor, "M N"], targets: Int[Tensor, " M"]) -> Int[Tensor, " M"]:
    """How many classes rank before the right one; of equal scores the first class ranks first.

    If the right class scores NaN, all others rank before it, so that it is never a hit.
    """
    right = scores.gather(1, targets.unsqueeze(1))
    numbers = torch.arange(scores.shape[1], device=scores.device)
    behind = (scores < right) | ((scores == right) & (numbers >= targets.unsqueeze(1)))
    return (~behind).sum(dim=1)
