"""PT-MAP's head: features made Gaussian-like, queries shared out to the classes by optimal transport."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from fewset.models.heads import Logits, Mask, Queries, Shots, above_zero, at_least, register_head
from fewset.models.layers.task_rows import TaskRows, mixture_distances, mixtures, task_rows
from fewset.models.method_info import MethodInfo
from fewset.models.similarity import negative_squared_euclidean

_MOST_STEPS = 200


@register_head("pt_map")
class PtMapHead(nn.Module):
    """Power transform and maximum a posteriori estimation (Hu, Gripon and Pateux, 2021); `average="post"`.

    Features: every value x becomes (x + 1e-6) to the `power`, rows are brought to length 1, less the mean of
    the task's shots or of its queries, and again to length 1.

    Then, `steps` times, with the classes' centres c and the squared distances d of the queries to them:

    * P is the optimal transport of M queries to N classes that get M / N each, for the cost d with the
      entropic regularisation 1 / λ: P = diag(a) exp(-λ d) diag(b). What each query gives is 1, and what each
      class gets is M / N up to 1e-6 of it. `sharpness` is λ.
    * c += `rate` (means of the shots and of the queries by their shares P - c).

    The logits are -λ d + log b: their softmax is the last P. The method assumes that classes have equally
    many queries.

    Deviations: negative features keep their sign (the authors' are never negative). Centres are weights of
    rows, and distances come from inner products, where the authors reduce rows to their QR factor: the same
    values. They find b by Sinkhorn's scalings, which stop for all tasks together, so that tasks influence
    each other; here Newton's method finds it task by task: the same plan in a tenth of the time.
    """

    about = MethodInfo(
        "queries shared out to the classes by optimal transport",
        paper="PT-MAP, Hu et al., ICANN 2021",
        kind="transductive",
        every_shot=True,
        no_onnx="it stops when it has converged, which ONNX cannot express",
    )

    def __init__(
        self, dim: int, power: float = 0.5, sharpness: float = 10.0, rate: float = 0.2, steps: int = 20
    ) -> None:
        super().__init__()
        above_zero(power=power, sharpness=sharpness, rate=rate)
        at_least(0, steps=steps)
        self.dim, self.similarity = dim, negative_squared_euclidean
        self.power, self.sharpness, self.rate, self.steps = power, sharpness, rate, steps

    def forward(self, support: Shots, query: Queries, mask: Mask = None) -> Logits:
        rows, shares = gaussian_like(task_rows(support, query, mask), self.power)
        inner, labelled = rows @ rows.mT, shares.shape[2]
        centres = mixtures(F.pad(shares, (0, query.shape[1])))
        logits = self._logits(inner, centres, labelled)
        for _ in range(self.steps):
            estimate = mixtures(torch.cat([shares, logits.softmax(dim=1)], dim=-1))
            centres = centres + self.rate * (estimate - centres)
            logits = self._logits(inner, centres, labelled)
        return logits.mT

    def _logits(
        self, inner: Float[Tensor, "T S S"], centres: Float[Tensor, "T N S"], labelled: int
    ) -> Float[Tensor, "T N M"]:
        distances = mixture_distances(inner, centres)[..., labelled:]
        return balanced_transport(-self.sharpness * distances)


def gaussian_like(task: TaskRows, power: float) -> TaskRows:
    """The task with features of which each class is about a Gaussian: power, length, centre, length."""
    rows = F.normalize(task.rows.sign() * (task.rows.abs() + 1e-6) ** power, dim=-1)
    there = task.counted[:, : task.labelled].unsqueeze(-1)
    shots, queries = rows[:, : task.labelled] * there, rows[:, task.labelled :]
    shots = shots - shots.sum(dim=1, keepdim=True) / there.sum(dim=1, keepdim=True)
    queries = queries - queries.mean(dim=1, keepdim=True)
    return TaskRows(F.normalize(torch.cat([shots, queries], dim=1), dim=-1), task.shares)


def balanced_transport(scores: Float[Tensor, "T N M"], tolerance: float = 1e-6) -> Float[Tensor, "T N M"]:
    """Logits of shares proportional to exp(scores): each query gives 1, each class gets M / N.

    The logits are scores + prices, and the price of each class is sought.
    Sinkhorn's scalings, prices -= log(N / M times the sum of the class), need hundreds of steps; Newton's
    method needs a few, and is taken whenever it brings a task nearer. Each task stops by itself.
    """
    way, queries = scores.shape[1:]
    share = queries / way
    prices = torch.zeros_like(scores[..., :1])
    everywhere = scores.new_full((way, way), share / way)  # a price that all classes have changes nothing
    for _ in range(_MOST_STEPS):
        transport = (scores + prices).softmax(dim=1)
        received = transport.sum(dim=-1, keepdim=True)
        excess = received - share
        error = excess.abs().amax(dim=1, keepdim=True)
        if not (error > tolerance * share).any():
            break
        slopes = torch.diag_embed(received.squeeze(-1)) - transport @ transport.mT + everywhere
        newton = prices - torch.linalg.solve_ex(slopes, excess).result
        left = (
            ((scores + newton).softmax(dim=1).sum(dim=-1, keepdim=True) - share).abs().amax(1, keepdim=True)
        )
        better = torch.where(left < error, newton, prices - (received / share).log())
        prices = torch.where(error > tolerance * share, better, prices)
    return scores + prices
