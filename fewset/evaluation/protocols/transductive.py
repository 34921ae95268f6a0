"""Transductive few-shot learning: the queries of a task are classified together and inform each other.

Section 5.3.2 of the paper, supplements B.5 and D.4. The unlabelled queries can take part in two ways: they
join the set that is adapted, and they refine the prototypes by soft k-means (Semi-ProtoNet).
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from fewset.evaluation.embedding import evaluating
from fewset.evaluation.protocols import Job, Outcome, Protocol, option, register_protocol
from fewset.evaluation.scoring import score_tasks
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.heads.semi_prototype import SemiPrototypeHead
from fewset.models.model import FewShotModel
from fewset.models.similarity import SIMILARITIES
from fewset.runtime.errors import UserError, refuse_unknown
from fewset.tasks.episode import class_major_labels, prototypes


@dataclass(frozen=True)
class Transduction:
    """How the queries take part; not `joined` and with 0 `steps` the task is solved inductively.

    `joined`: they are in the set that is adapted, beside the support. `steps`: so many times the prototypes
    are refined by them. `adapted_queries`: their adapted embeddings are classified (and refine the
    prototypes), else their embeddings as they were.
    """

    joined: bool = True
    steps: int = 0
    adapted_queries: bool = False

    def __post_init__(self) -> None:
        if self.steps < 0:
            raise UserError(f"steps is {self.steps}, expected 0 or more")
        if self.adapted_queries and not self.joined:
            raise UserError(
                "queries that do not join the set are not adapted; join them, or leave them unadapted"
            )


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


@register_protocol("transductive")
@dataclass(frozen=True)
class Transductive(Protocol):
    """Tasks of one split, the queries of each classified together."""

    variant: str = option("dagger", f"How the queries take part: {', '.join(VARIANTS)}.")

    needs_embeddings: ClassVar = True

    def check(self, job: Job) -> None:
        refuse_unknown("variant", self.variant, VARIANTS)
        refining_head(job.embedding_model, 0)
        job.pool()

    def evaluate(self, job: Job) -> Outcome:
        pool, model, how = job.pool(), job.embedding_model, VARIANTS[self.variant]
        features = job.embed(pool.rows)

        with evaluating(model) as evaluated:
            classify = partial(transductive_logits, evaluated, how=how)
            score = score_tasks(classify, features, pool.index, job.spec, title="scoring")
        return Outcome(score, left_out=pool.left_out)


def transductive_logits(
    model: FewShotModel,
    support: Float[Tensor, "T N K D"],
    query: Float[Tensor, "T M D"],
    how: Transduction,
) -> Float[Tensor, "T M N"]:
    """Logits of all queries of a task together, by the similarity and temperature of the model's head.

    A model with `average="pre"` averages the shots before they are joined with the queries (the paper). In
    the refinement such an average counts as the shots it stands for, as it would in Semi-ProtoNet.
    """
    shots = support.shape[2]
    if how.adapted_queries:
        support, query = _adapt_together(model, support, query)
    else:
        support = model.adapt(support, query if how.joined else None)
    if how.steps and support.shape[2] < shots:
        support = support.expand(-1, -1, shots, -1)
    logits: Tensor = refining_head(model, how.steps)(support, query)
    return logits


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


def refining_head(model: FewShotModel, steps: int) -> SemiPrototypeHead:
    head = model.head
    if not isinstance(head, PrototypeHead | SemiPrototypeHead):
        raise UserError(
            f"this model has a {type(head).__name__}, but the transductive setting refines prototypes; use a "
            "model with the head 'prototype' or 'semi_prototype'"
        )
    (name,) = (name for name, similarity in SIMILARITIES.items() if similarity is head.similarity)
    return SemiPrototypeHead(head.dim, name, head.temperature, steps)
