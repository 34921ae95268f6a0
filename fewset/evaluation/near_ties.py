"""Scores that are nearer to each other than their rounding errors: decided in double precision.

A sum is rounded otherwise in another order, and so it depends on the processor, on how many tasks are
computed at once, and on where numbers are in memory. The decisions do not: with D products, a sum in single
precision is off by no more than D rounding errors of the sum of their sizes. What this leaves open is
computed again in double precision; there, equal is what is as near as its own rounding, and the first class
of equal ones is the answer.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fewset.core.errors import UserError
from fewset.models.linear_form import LinearForm

ROUNDING = 1.01 * 2.0**-24  # of a step in single precision, by the number; the lengths are rounded, too
DOUBLE_ROUNDING = 2.0**-52
LOST = 2.0**-126  # products below this may be 0


def answers(
    form: LinearForm, query: Float[Tensor, "T M D"], lengths: Float[Tensor, "T M"]
) -> Int[Tensor, "T M"]:
    """The class of each query. `lengths` are those of the queries."""
    scores = form.scores(query)
    check_finite_logits(scores)
    found = scores.argmax(-1)
    if scores.dtype != torch.float32 or torch.get_float32_matmul_precision() != "highest":
        return found
    longest, farthest = form.weights.norm(dim=-1).amax(-1), form.offset.abs().amax(-1)
    size = longest.unsqueeze(-1) * lengths + farthest.unsqueeze(-1)
    doubt = 2 * (query.shape[-1] + 4) * (ROUNDING * size + LOST)
    near = (scores >= (scores.amax(-1) - doubt).unsqueeze(-1)).sum(-1) > 1
    near &= size.isfinite()
    if near.any():
        task, place = near.nonzero(as_tuple=True)
        found[task, place] = _exact_answers(
            LinearForm(form.weights[task], form.offset[task]), query[task, place]
        )
    return found


def check_finite_logits(logits: Float[Tensor, "T M N"]) -> None:
    """Reject logits of which the largest cannot be told."""
    if not logits.isfinite().all():
        raise UserError(
            "the logits of some tasks are not finite: the features are too large for this model; scale them"
        )


def _exact_answers(form: LinearForm, rows: Float[Tensor, "B D"]) -> Int[Tensor, " B"]:
    """The class of each row by the form of its own."""
    scores, sizes = form.offset.double().neg(), form.offset.double().abs()
    for label in range(scores.shape[1]):
        parts = form.weights[:, label].double() * rows.double()
        scores[:, label] += parts.sum(-1)
        sizes[:, label] += parts.abs().sum(-1)
    equal = rows.shape[1] * DOUBLE_ROUNDING * sizes.amax(-1)
    return (scores >= (scores.amax(-1) - equal).unsqueeze(-1)).int().argmax(-1)
