"""Models on a table of features: no image is embedded, and only the set-to-set function is trained.

A table may be larger than the memory. So whatever needs many rows walks through them once, in the order of
the file, a few at a time.
"""

from collections.abc import Callable
from itertools import chain

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn

from fewset import distributed
from fewset.data.features import SETUPS, FeatureTable
from fewset.errors import UserError, known
from fewset.evaluation import Score, evaluate
from fewset.model import FewShotModel
from fewset.sampling import ClassIndex, TaskSpec, mix, sample_tasks
from fewset.training.episodic import TrainConfig, task_step, validation_spec
from fewset.training.loop import Step
from fewset.training.optimiser import build_optimiser

TRANSFORMS = ("none", "l2n", "cl2n")

_VALIDATION_SHARE = 0.2  # of the seen classes, where the table has no classes for validation
_VALIDATION_ROWS = 64  # of each class that is validated on: 300 classes of 2,048 numbers are 157 MB


class FeatureInput(nn.Module):
    """Stands where the backbone stands in a model on images: what is done to a row of the table first.

    As in SimpleShot (Wang et al., 2019): nothing, length 1 ("l2n"), or less the mean of the seen classes'
    training rows and then length 1 ("cl2n", after `fit_centre`). ProtoNet on such rows is SimpleShot.
    """

    input_size = 0  # there are no images
    centre: Tensor

    def __init__(self, dim: int, transform: str = "none") -> None:
        super().__init__()
        if transform not in TRANSFORMS:
            raise known("transform", transform, TRANSFORMS)
        self.dim, self.transform = dim, transform
        # NaN until it is fitted, so that "not fitted" survives saving and loading.
        if transform == "cl2n":
            self.register_buffer("centre", torch.full((dim,), torch.nan))

    def forward(self, rows: Float[Tensor, "*rows D"]) -> Float[Tensor, "*rows D"]:
        if self.transform == "none":
            return rows
        if self.transform == "cl2n":
            if self.centre.isnan().any():
                raise UserError(
                    "transform 'cl2n' subtracts the mean of the training features, and it is not set; call "
                    "fit_centre(model, table) first, or use transform='l2n'"
                )
            rows = rows - self.centre
        return F.normalize(rows, dim=-1)


def feature_input(model: FewShotModel, table: FeatureTable) -> FeatureInput:
    """The input of a model that fits this table, or an error."""
    if not isinstance(model.backbone, FeatureInput):
        raise UserError(
            "this model embeds images, but a table of features was given; expected a model whose backbone is "
            "'features'"
        )
    if model.dim != table.dim:
        raise UserError(
            f"the model is made for features of {model.dim} numbers, but {table.name!r} has {table.dim}"
        )
    return model.backbone


def device_of(model: FewShotModel) -> torch.device:
    """Where a model is; one without any numbers is at home everywhere."""
    return next(chain(model.parameters(), model.buffers()), torch.empty(0)).device


def fit_centre(model: FewShotModel, table: FeatureTable) -> None:
    """Take the mean of the seen classes' training rows, where the model's input needs it."""
    entry = feature_input(model, table)
    if entry.transform == "cl2n":
        rows = table.rows(table.classes("seen"), "train")
        total = _sums(lambda features: features, table, rows, np.zeros_like(rows), 1, device_of(model))
        entry.centre.copy_(total[0] / len(rows))


def class_means(
    model: FewShotModel, table: FeatureTable, classes: Int[np.ndarray, "N"], chunk: int | None = None
) -> Float[Tensor, "N D"]:
    """The mean of all training rows of each class, after the model's input. `chunk` does not change it."""
    entry = feature_input(model, table)
    rows = table.rows(classes, "train")
    position = np.full(len(table.class_names), -1)
    position[classes] = np.arange(len(classes))
    groups = position[table.labels[rows]]
    counts = np.bincount(groups, minlength=len(classes))
    if counts.min() == 0:
        name = table.class_names[classes[counts.argmin()]]
        raise UserError(f"class {name!r} of {table.name!r} has no training rows, expected at least one")
    sums = _sums(entry, table, rows, groups, len(classes), device_of(model), chunk)
    return (sums / torch.from_numpy(counts).to(sums.device).unsqueeze(1)).float()


@torch.no_grad()
def _sums(
    embed: Callable[[Tensor], Tensor],
    table: FeatureTable,
    rows: Int[np.ndarray, "n"],
    groups: Int[np.ndarray, "n"],
    count: int,
    device: torch.device,
    chunk: int | None = None,
) -> Float64[Tensor, "count D"]:
    """The sum of the rows of each group, of `count` groups.

    Added one after another, so that the chunk does not matter, and in double precision, so that a class of a
    thousand rows loses nothing.
    """
    sums = torch.zeros(count, table.dim, dtype=torch.float64, device=device)
    done = 0
    for part, features in table.chunks(rows, chunk):
        group = torch.from_numpy(groups[done : done + len(part)]).to(device)
        sums.index_add_(0, group, embed(torch.from_numpy(features).to(device)).double())
        done += len(part)
    return sums


class FeatureTraining:
    """Meta-training of an adapter on tasks of the seen classes' training rows; a stage of the training loop.

    The best weights are chosen on classes that are not trained on: the unseen classes of the validation
    setup, where the table has them, else a fifth of the seen classes, drawn with the seed (at least as many
    as a validation task has ways).
    """

    title = "meta-training"

    def __init__(self, model: FewShotModel, table: FeatureTable, config: TrainConfig, seed: int) -> None:
        self.input = feature_input(model, table)
        if config.augment or config.init or config.precision != "float32":
            raise UserError(
                "a table of features has neither images to augment nor weights to start from nor a backbone; "
                "leave out train.augment, train.init and train.precision"
            )
        parameters = list(model.parameters())
        if not parameters and config.epochs:
            raise UserError(
                "this model has nothing to train (no adapter); set train.epochs = 0 to score it as it is"
            )
        fit_centre(model, table)
        self.model = self.module = model
        self.table, self.config, self.seed = table, config, seed
        train, self.validated = _train_and_validation(table, config.validation_way, seed)
        self.rows = table.rows(train, "train")
        self.index = ClassIndex(table.labels[self.rows], table.class_names)
        self.spec = TaskSpec(config.way, config.shot, config.query, config.tasks_per_step, seed)
        self.portion = distributed.portion(config.tasks_per_step, "train.tasks_per_step")
        self.optimiser_config = config.optimiser
        # The loop wants an optimiser even when it takes no step.
        self.optimiser = build_optimiser(config.optimiser, (), parameters or [nn.Parameter(torch.zeros(1))])
        self.epochs = config.epochs
        self.steps_per_epoch = config.tasks_per_epoch // config.tasks_per_step

    def step(self, number: int) -> Step:
        first, last = (number * self.config.tasks_per_step + place for place in self.portion)
        chosen = sample_tasks(self.index, self.spec, first, last)
        return task_step(self.model, self._embed(self.rows[chosen]), self.config)

    def validate(self) -> Score:
        """Tasks on at most 64 training rows of each class, which fit in memory whatever the table's size."""
        config, table = self.config, self.table
        counts = np.bincount(
            table.labels[table.rows(self.validated, "train")], minlength=len(table.class_names)
        )
        most = max(_VALIDATION_ROWS, config.shot + config.validation_query)
        drawn = table.draw(self.validated, min(most, int(counts[self.validated].min())), mix(self.seed, 5))
        spec = validation_spec(config, self.seed)
        features, labels = self._embed(drawn).flatten(0, 1), table.labels[drawn.reshape(-1)]
        return evaluate(self.model, features, labels, spec, class_names=table.class_names)

    def _embed(self, rows: Int[np.ndarray, "*batch"]) -> Float[Tensor, "*batch D"]:
        features = torch.from_numpy(self.table.read(rows.reshape(-1))).to(device_of(self.model))
        embedded: Tensor = self.input(features)
        return embedded.view(*rows.shape, -1)


def _train_and_validation(
    table: FeatureTable, least: int, seed: int
) -> tuple[Int[np.ndarray, "train"], Int[np.ndarray, "validation"]]:
    """The classes to train on and those to choose the best weights on."""
    seen = table.classes("seen")
    if (table.unseen & (table.setups == SETUPS.index("validation"))).any():
        return seen, table.classes("unseen", "validation")
    order = sorted(seen.tolist(), key=lambda number: mix(seed, number, 6))
    count = max(least, round(_VALIDATION_SHARE * len(seen)))
    return np.array(order[count:], dtype=np.int64), np.array(order[:count], dtype=np.int64)
