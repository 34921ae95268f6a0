"""Transductive few-shot learning: the queries of a task are classified together and inform each other.

Section 5.3.2 of the paper, supplements B.5 and D.4. The unlabelled queries can take part in two ways: they
join the set that is adapted, and they refine the prototypes by soft k-means (Semi-ProtoNet). A transductive
head, such as TIM's, has its own way.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, cast

import torch
from jaxtyping import Float
from torch import Tensor

from fewset.core.errors import UserError, refuse_unknown
from fewset.evaluation.controls import set_adds, with_another_task
from fewset.evaluation.embedding import evaluating
from fewset.evaluation.protocols import Job, Outcome, Protocol, option, register_protocol
from fewset.evaluation.scoring import score_tasks
from fewset.models.heads import SimilarityHead
from fewset.models.heads.semi_prototype import refined_means
from fewset.models.method_info import method_info
from fewset.models.model import FewShotModel
from fewset.tasks.episode import Episode, class_major_labels, prototypes
from fewset.tasks.items import Items
from fewset.tasks.sampling import ClassIndex
from fewset.tasks.scores import ALONE, FOREIGN, SET_ADDS, Score
from fewset.tasks.spec import TaskSpec
from fewset.tasks.unbalanced import check_unbalanced, sample_unbalanced


@dataclass(frozen=True)
class Transduction:
    """How the queries take part; not `joined` and with 0 `steps` the task is solved inductively.

    `joined`: they are in the set that is adapted, beside the support. `steps`: how many times they refine the
    prototypes. `adapted_queries`: their adapted embeddings are classified (and refine the prototypes), else
    the embeddings before the adaptation.
    """

    joined: bool = True
    steps: int = 0
    adapted_queries: bool = False


VARIANTS = {
    "semi-protonet": Transduction(joined=False, steps=1),
    "dagger": Transduction(),
    "dagger-adapted-queries": Transduction(adapted_queries=True),
    "double-dagger": Transduction(steps=1, adapted_queries=True),
    "double-dagger-published": Transduction(steps=1),
}
"""The rows of the paper's table.

FEAT† "works the same way as standard FEAT except the augmented input": prototypes of the adapted support
against unadapted queries. The other reading is "dagger-adapted-queries".

FEAT‡ takes the queries' "adapted embeddings to construct a better class prototype": here they are refined
with and classified as adapted. The authors' published code adapts only the support (the queries are keys
and values, not queries of the attention) and refines with unadapted queries: "double-dagger-published",
with `average="post"` in the model.

"semi-protonet" is Semi-ProtoNet on a model without an adapter (a ProtoNet run).
"""

HEAD = "head"
"""The variant for a model whose head is transductive: the model as it is."""


@register_protocol("transductive")
@dataclass(frozen=True)
class Transductive(Protocol):
    """Tasks of one split, the queries of each classified together."""

    variant: str = option("dagger", f"How the queries take part: {', '.join((*VARIANTS, HEAD))}.")
    dirichlet: int = option(
        0,
        "Unbalanced queries: the parameter of the Dirichlet distribution that shares them out (0: balanced).",
    )

    needs_embeddings: ClassVar = True

    def __post_init__(self) -> None:
        if self.dirichlet < 0:
            raise UserError(f"dirichlet is {self.dirichlet}, expected 0 or more; the literature takes 2")

    @property
    def label(self) -> str:
        return self.variant + (f"-dirichlet{self.dirichlet}" if self.dirichlet else "")

    def prepare(self, job: Job) -> Items:
        refuse_unknown("variant", self.variant, (*VARIANTS, HEAD))
        head = job.embedding_model.head
        about, own = method_info(head), self.variant == HEAD
        if not (about.kind == "transductive" if own else about.class_means):
            wanted = "that is transductive" if own else "that compares with class means"
            remedy = "another variant" if own else f"the variant {HEAD!r}, or the head 'prototype'"
            raise UserError(
                f"the variant {self.variant!r} needs a head {wanted}, and {type(head).__name__} is not one; "
                f"take {remedy}"
            )
        items = job.items()
        if self.dirichlet:
            check_unbalanced(items.index, job.spec)
        return items

    def evaluate(self, job: Job, items: Items) -> Outcome:
        features = job.embed(items)
        draw = partial(sample_unbalanced, items.index, job.spec, self.dirichlet) if self.dirichlet else None
        with evaluating(job.embedding_model) as model:
            own = self.variant == HEAD
            classify = model if own else partial(transductive_logits, model, how=VARIANTS[self.variant])
            score = score_tasks(classify, features, items.index, job.spec, title="scoring", draw=draw)
            controls = {} if own else _controls(model, features, items.index, job.spec, self.variant, draw)
        fields: dict[str, Any] = {SET_ADDS: set_adds(score, controls[ALONE])} if ALONE in controls else {}
        outcome = Outcome(score, controls, fields=fields, left_out=items.left_out)
        if not self.dirichlet:
            return outcome
        shared = f"Dirichlet({self.dirichlet})"
        return replace(
            outcome,
            task_key=f"queries: {shared}",
            fields={"dirichlet": self.dirichlet, **fields},
            notes={"unbalanced queries": f"{job.spec.way * job.spec.query} a task, shared out by a {shared}"},
        )


def _controls(
    model: FewShotModel,
    features: Float[Tensor, "items D"],
    index: ClassIndex,
    spec: TaskSpec,
    variant: str,
    draw: Callable[[int, int], Episode] | None,
) -> dict[str, Score]:
    """The scores of the controls.

    "alone": each item is adapted as a set of one. "foreign": the queries of another task inform. There is no
    "foreign" for adapted queries, which contain their own task, nor for unbalanced ones.
    """
    how, scores = VARIANTS[variant], {}
    if model.capabilities.adapts:
        alone = partial(transductive_logits, model.alone(), how=how)
        scores[ALONE] = score_tasks(alone, features, index, spec, draw=draw)
    if draw is None and not how.adapted_queries:
        foreign = partial(informed_by_another_task, model, how=how)
        score = score_tasks(foreign, features, index, spec, draw=with_another_task(index, spec))
        scores[FOREIGN] = Score.of(score.per_task, spec, index.digest)
    return scores


def transductive_logits(
    model: FewShotModel,
    support: Float[Tensor, "T N K D"],
    query: Float[Tensor, "T M D"],
    how: Transduction,
    informing: Float[Tensor, "T C D"] | None = None,
) -> Float[Tensor, "T M N"]:
    """Logits of all queries of a task together, by the similarity and temperature of the model's head.

    The queries themselves inform, or other items in their place. A model with `average="pre"` averages the
    shots before they are joined with the queries (the paper). In the refinement such an average counts as the
    shots it stands for, as it would in Semi-ProtoNet.
    """
    if how.adapted_queries:
        adapted, query = _adapt_together(model, support, query)
        informing = query
    else:
        informing = query if informing is None else informing
        adapted = model.adapt(support, informing if how.joined else None)
        query, informing = (model.adapt_queries(support, rows) for rows in (query, informing))
    if how.steps and model.average == "pre":
        adapted = adapted.expand(-1, -1, support.shape[2], -1)
    head = cast(SimilarityHead, model.head)
    means = refined_means(adapted, informing, head.similarity, head.temperature, how.steps)
    return head.similarity(query, means) / head.temperature


def informed_by_another_task(
    model: FewShotModel,
    support: Float[Tensor, "T N2 K D"],
    query: Float[Tensor, "T M2 D"],
    how: Transduction,
) -> Float[Tensor, "T M N"]:
    """Logits of the first half of the queries, by the first half of the classes; the other queries inform."""
    query, others = query.chunk(2, dim=1)
    return transductive_logits(model, support.chunk(2, dim=1)[0], query, how, informing=others)


def _adapt_together(
    model: FewShotModel, support: Float[Tensor, "T N K D"], query: Float[Tensor, "T M D"]
) -> tuple[Float[Tensor, "T N J D"], Float[Tensor, "T M D"]]:
    """Support and queries adapted as one set. A query has no label: it is alone in a class of its own."""
    if model.average == "pre":
        support = prototypes(support).unsqueeze(2)
    tasks, way, rows = support.shape[:3]
    own = way + torch.arange(query.shape[1], device=query.device).expand(tasks, -1)
    labels = torch.cat([class_major_labels(tasks, way, rows, query.device), own], dim=1)
    adapted = model.transform(torch.cat([support.flatten(1, 2), query], dim=1), None, labels)
    return adapted[:, : way * rows].reshape(support.shape), adapted[:, way * rows :]
