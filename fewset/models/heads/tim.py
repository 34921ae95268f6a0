"""TIM's head: the mutual information between the queries and their labels is maximised."""

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from fewset.core.errors import refuse_unknown
from fewset.models.heads import Logits, Mask, Queries, Shots, above_zero, at_least, register_head
from fewset.models.layers.task_rows import TaskRows, mixture_distances, mixtures, task_rows
from fewset.models.method_info import MethodInfo
from fewset.models.similarity import negative_squared_euclidean

Solver = Literal["alternating", "gradient"]
_STEPS: dict[str, int] = {"alternating": 150, "gradient": 1000}
_SMALLEST = 1e-12  # of a probability whose logarithm is taken


@register_head("tim")
class TimHead(nn.Module):
    """Transductive information maximisation (Boudiaf et al., 2020); `average="post"`.

    All features have length 1, and w are the classes' centres, the prototypes at first. With
    p = softmax(-`sharpness` / 2 ‖x - w‖²), what is minimised is

        `label_weight` CE(shots) - `balance_weight` H(mean of the queries' p) + `certainty_weight` mean H(p)

    The first entropy wants as many queries in each class, the second that each query is surely in one. The
    solver "alternating" is the paper's TIM-ADM: `steps` times auxiliary labels q of the queries, then the
    centres, both in closed form. The solver "gradient" is TIM-GD: Adam on the centres at `rate`. Without
    `steps` they are the authors' 150 and 1,000. The logits are those of p.

    Deviations: the solver "gradient" has its gradient written out, and "alternating" keeps its centres as
    weights of rows; both give the values of the authors' code.
    """

    about = MethodInfo(
        "centres that make the queries sure and balanced",
        paper="TIM, Boudiaf et al., NeurIPS 2020",
        kind="transductive",
        every_shot=True,
        no_onnx="it fits each task by many steps, each of which would be written out",
    )

    def __init__(
        self,
        dim: int,
        solver: str = "alternating",
        steps: int | None = None,
        sharpness: float = 15.0,
        label_weight: float = 0.1,
        balance_weight: float = 1.0,
        certainty_weight: float = 0.1,
        rate: float = 1e-4,
    ) -> None:
        super().__init__()
        refuse_unknown("solver", solver, get_args(Solver))
        self.steps = _STEPS[solver] if steps is None else steps
        above_zero(sharpness=sharpness, rate=rate)
        at_least(0, steps=self.steps, label_weight=label_weight)
        at_least(0, balance_weight=balance_weight, certainty_weight=certainty_weight)
        self.dim, self.similarity = dim, negative_squared_euclidean
        self.solver, self.sharpness, self.rate = solver, sharpness, rate
        self.label_weight, self.balance_weight = label_weight, balance_weight
        self.certainty_weight = certainty_weight

    def forward(self, support: Shots, query: Queries, mask: Mask = None) -> Logits:
        task = task_rows(F.normalize(support, dim=-1), F.normalize(query, dim=-1), mask)
        solve = self._alternate if self.solver == "alternating" else self._descend
        return solve(task)[..., task.labelled :].mT

    def _alternate(self, task: TaskRows) -> Float[Tensor, "T N S"]:
        """Logits of all rows. A row counts `each` in the centres: a shot by its label, a query by its q.

        In the derivation, `each (p - y)` is the gradient of a majoriser with the Hessian `each y`: its
        minimum is a mixture of the rows and of the centre itself.
        """
        queries = task.queries.shape[1]
        inner, shots = task.rows @ task.rows.mT, task.shares.sum(dim=(1, 2)).view(-1, 1, 1)
        centres = mixtures(F.pad(task.shares, (0, queries)))
        label_weight = self.label_weight / (1 + self.certainty_weight)
        there = task.counted[:, : task.labelled].to(shots.dtype).unsqueeze(1)
        each = torch.cat([label_weight * there, (shots / queries).expand(-1, -1, queries)], dim=-1)
        # The weight of the divergence of q from p is 1.
        balance = self.balance_weight / (self.balance_weight + 1)
        for _ in range(self.steps):
            logits = self._logits(mixture_distances(inner, centres))
            logarithms = (1 + self.certainty_weight) * logits[..., task.labelled :].log_softmax(dim=1)
            auxiliary = (logarithms - balance * logarithms.logsumexp(dim=-1, keepdim=True)).softmax(dim=1)
            labels, shares = each * torch.cat([task.shares, auxiliary], dim=-1), each * logits.softmax(dim=1)
            own, total = (counted.sum(dim=-1, keepdim=True) for counted in (shares, labels))
            centres = (labels - shares + own * centres) / total
        return self._logits(mixture_distances(inner, centres))

    def _descend(self, task: TaskRows) -> Float[Tensor, "T N S"]:
        """Logits of all rows, after Adam (with the usual decay rates) has moved the centres."""
        labelled, queries = task.labelled, task.queries.shape[1]
        centres = mixtures(task.shares) @ task.shots
        per_shot = self.label_weight * task.counted[:, :labelled].unsqueeze(1)
        per_shot = per_shot / task.shares.sum(dim=(1, 2)).view(-1, 1, 1)
        first, second = torch.zeros_like(centres), torch.zeros_like(centres)
        for step in range(1, self.steps + 1):
            shares = self._logits(_distances(task.rows, centres)).softmax(dim=1)
            shots, unlabelled = shares[..., :labelled], shares[..., labelled:]
            slopes = self.balance_weight * unlabelled.mean(dim=-1, keepdim=True).log()
            slopes = slopes - self.certainty_weight * (unlabelled + _SMALLEST).log()
            expected = (unlabelled * slopes).sum(dim=1, keepdim=True)
            errors = torch.cat(
                [per_shot * (shots - task.shares), unlabelled * (slopes - expected) / queries], dim=-1
            )
            gradient = self.sharpness * (errors @ task.rows - errors.sum(dim=-1, keepdim=True) * centres)
            first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient.square()
            mean, square = first / (1 - 0.9**step), second / (1 - 0.999**step)
            centres = centres - self.rate * mean / ((square + 1e-30).sqrt() + 1e-8)
        return self._logits(_distances(task.rows, centres))

    def _logits(self, distances: Float[Tensor, "T N S"]) -> Float[Tensor, "T N S"]:
        return -self.sharpness / 2 * distances


def _distances(rows: Float[Tensor, "T S D"], centres: Float[Tensor, "T N D"]) -> Float[Tensor, "T N S"]:
    return -negative_squared_euclidean(centres, rows)
