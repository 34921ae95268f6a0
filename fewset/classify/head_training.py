"""Learning the scalars of the equivariant head, on tasks of tables of features.

The shipped ones are from features of efficientnet-lite0: of 40 images of each of miniImageNet's 64 train
classes and of CUB's 100 train classes (whole boxes), and of their edge drawings; `fewset head-table` makes
the tables. What is not learned was chosen on validation classes of the same sets, drawn and not.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float32, Int
from torch import Tensor

from fewset.classify.heads import find_classifier_head, signed_power
from fewset.classify.heads.equivariant import EquivariantHead, Scalars, solve
from fewset.experiments.evaluate import command_line
from fewset.models.losses import task_loss
from fewset.models.regression import episode_membership
from fewset.runtime.arrays import array_in
from fewset.runtime.errors import UserError
from fewset.runtime.files import file_digest, replacing, write_json
from fewset.runtime.machine import describe
from fewset.runtime.parsing import parse
from fewset.runtime.zips import open_zip
from fewset.tasks.episode import split
from fewset.tasks.sampling import ClassIndex, sample_tasks
from fewset.tasks.spec import TaskSpec

FROZEN = ("centring",)
"""The likelihood of 1-shot tasks draws it to where they are answered worse; it is chosen on validation."""
# Ways, shots, tasks.
_SIZES = (
    *((5, 1, 60), (5, 5, 50), (20, 1, 8), (20, 5, 6)),
    *((64, 1, 2), (64, 5, 2), (100, 1, 1), (100, 5, 1)),
)
_RATE = 0.05
_SHARPER = 2.0
_LIKELIHOOD = 0.3  # of the loss; the rest is the share of wrong answers, made smooth
_SCALES = (1 / 4, 1 / 2, 1.0, 2.0, 4.0)


class Domain(NamedTuple):
    """A table of features to draw tasks from."""

    features: Float32[np.ndarray, "items D"]
    labels: Int[np.ndarray, "items"]


class _Tasks(NamedTuple):
    """Tasks of one size and domain in their own few dimensions, and the losses of the ridge head on them."""

    support: Float[Tensor, "T S d"]
    membership: Float[Tensor, "T S N"]
    query: Float[Tensor, "T M d"]
    labels: Int[Tensor, "T M"]
    likelihood: float
    wrong: float


def read_domain(file: Path) -> Domain:
    """The table of an .npz file with `features` and `labels`."""
    try:
        with open_zip(file) as archive:
            features, labels = (array_in(archive, name) for name in ("features", "labels"))
    except (OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read ({error}); expected .npz with features and labels") from None
    if (
        features.ndim != 2
        or not features.size
        or labels.shape != features.shape[:1]
        or labels.dtype.kind not in "iu"
    ):
        raise UserError(
            f"{file} has features of shape {features.shape} and labels of shape {labels.shape} and type "
            f"{labels.dtype}; expected a row and a whole number for each image"
        )
    return Domain(features.astype(np.float32), labels.astype(np.int64))


def write_domain(domain: Domain, out: Path) -> None:
    """The same file from its table; the same bytes for the same numbers."""
    with replacing(out) as temporary, temporary.open("wb") as file:
        np.savez(file, features=domain.features, labels=domain.labels)


def write_scalars(scalars: Scalars, tables: Sequence[Path], seed: int, steps: int, out: Path) -> None:
    """The file of the scalars, with all that made them."""
    versions = describe()
    record = {
        "scalars": asdict(scalars),
        "tables": {table.name: file_digest(table) for table in tables},
        "seed": seed,
        "steps": steps,
        "command": command_line(),
        "commit": str(versions.pop("commit")),
        "versions": versions,
    }
    write_json(out, record)


def train_equivariant(
    domains: Sequence[Domain],
    seed: int = 0,
    steps: int = 50,
    start: Scalars | None = None,
    after_step: Callable[[int, float], None] | None = None,
    device: torch.device | None = None,
) -> Scalars:
    """Scalars that make the answers to the tasks' queries right, and likely.

    The tasks of all domains have 5 to 100 ways and 1 or 5 shots. The loss of each kind is divided by that of
    the ridge head at its best scale, so that hard domains do not decide. `after_step` is told the step and
    its loss.
    """
    pool = [tasks for domain in domains for tasks in _pool(domain, seed, device)]
    if not pool:
        raise UserError(f"no domain has {_SIZES[0][0]} classes of 7 items or more; give larger tables")
    scalars = {name: value.float().to(device) for name, value in (start or Scalars()).tensors().items()}
    learning = [value.requires_grad_() for name, value in scalars.items() if name not in FROZEN]
    optimiser = torch.optim.Adam(learning, lr=_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for step in range(steps):
        optimiser.zero_grad()
        total = 0.0
        for tasks in pool:
            logits = solve(scalars, tasks.support, tasks.membership).logits(tasks.query)
            likelihood, wrong = _losses(logits, tasks.labels)
            loss = _LIKELIHOOD * likelihood / tasks.likelihood + (1 - _LIKELIHOOD) * wrong / tasks.wrong
            (loss / len(pool)).backward()  # type: ignore[no-untyped-call]
            total += loss.item() / len(pool)
        optimiser.step()
        schedule.step()
        if after_step is not None:
            after_step(step, total)
    return parse(Scalars, {name: _plain(value) for name, value in scalars.items()})


def _pool(domain: Domain, seed: int, device: torch.device | None) -> list[_Tasks]:
    """Tasks of every size that the domain has the classes and items for."""
    index = ClassIndex(domain.labels)
    table = signed_power(torch.from_numpy(domain.features).to(device), EquivariantHead.power)
    found = []
    for way, shot, count in _SIZES:
        query = min(10 if way == 5 else 6, int(index.shots.min()) - shot)
        if way <= len(index.classes) and query > 0:
            spec = TaskSpec(way, shot, query, count, seed)
            rows = torch.from_numpy(sample_tasks(index, spec, 0, count)).to(device)
            found.append(_tasks(table[rows], shot))
    return found


def _tasks(items: Float[Tensor, "T N KQ D"], shot: int) -> _Tasks:
    episode = split(_turned(items), shot)
    support, members = episode.support.flatten(1, 2), episode_membership(episode.support)
    logits = find_classifier_head("ridge").solve(support, members).logits(episode.query)
    losses = [[loss.item() for loss in _losses(scale * logits, episode.query_labels)] for scale in _SCALES]
    likelihood, wrong = (max(min(column), 1e-3) for column in zip(*losses, strict=True))
    return _Tasks(support, members, episode.query, episode.query_labels, likelihood, wrong)


def _turned(items: Float[Tensor, "T N KQ D"]) -> Float[Tensor, "T N KQ d"]:
    """The items of each task in the fewest dimensions, by a rotation, which the head does not see."""
    rows = items.flatten(1, 2)
    if rows.shape[1] >= rows.shape[2]:
        return items
    coordinates: Tensor = torch.linalg.qr(rows.mT, mode="r").R.mT
    return coordinates.reshape(*items.shape[:3], -1)


def _losses(
    logits: Float[Tensor, "T M N"], labels: Int[Tensor, "T M"]
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Minus the log-likelihood, and the share of wrong answers where each counts by its probability."""
    right = (_SHARPER * logits).softmax(dim=-1).gather(-1, labels.unsqueeze(-1))
    return task_loss(logits, labels).mean(), 1 - right.mean()


def _plain(value: Tensor) -> float | list[float]:
    """With four digits, which are more than training determines."""
    rounded = [round(float(number), 4) for number in value.detach().reshape(-1)]
    return rounded if value.ndim else rounded[0]
