"""Meta-training: one step is one or more tasks drawn from the train split (algorithm 1 of the paper)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import ClassVar, cast

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from fewset.compute.devices import Precision
from fewset.core.errors import UserError
from fewset.core.randomness import Stream, mix
from fewset.data.images.augmentation import draw_rotations, rotate
from fewset.evaluation.embedding import embed_images, evaluating
from fewset.evaluation.scoring import score_tasks, task_accuracy
from fewset.models.losses import Scored, contrastive_logits, task_loss
from fewset.models.model import FewShotModel, embedding_model
from fewset.models.similarity import Similarity
from fewset.models.task_model import TaskModel, device_of
from fewset.tasks.episode import split
from fewset.tasks.sampling import ClassIndex, sample_tasks
from fewset.tasks.scores import Score
from fewset.tasks.spec import TaskSpec
from fewset.training.auxiliary import AuxiliaryTask
from fewset.training.batches import TrainingItems, check_positive, embed_batch, load_batch
from fewset.training.loop import PerStep, Step
from fewset.training.optimiser import OptimiserConfig, build_optimiser
from fewset.training.seeding import seeded

GATES = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class JointConfig:
    """The part of joint training that classifies images of all train classes (`fewset.training.joint`)."""

    batch: int = 128  # images in a step beside its tasks, of all processes together
    task_weight: float = 0.25  # weight of the task loss; that of both classification losses is 1
    splits: int = 1  # how often the images of a task are divided into support and queries

    def __post_init__(self) -> None:
        if min(self.batch, self.splits) < 1 or self.task_weight < 0:
            raise UserError(
                "train.joint: batch and splits must be 1 or more and task_weight 0 or more, got "
                f"{self.batch}, {self.splits} and {self.task_weight}"
            )


@dataclass(frozen=True)
class TrainConfig:
    """Meta-training. The defaults are the authors' for FEAT with the ConvNet, 1 shot, on miniImageNet.

    `init` is the name of a run beside this one, a run directory, a weights file or the name of a released
    model.
    """

    init: str = ""  # where the weights start from; random ones when empty
    way: int = 5  # classes in a task
    shot: int = 1  # labelled images a class
    query: int = 15  # queries a class
    related: float = 0.0  # the share of steps whose tasks are of related classes; validation has as many
    nearest: int = 8  # such a task has one class and others of its N nearest
    epochs: int = 200  # with 0 the weights stay as they are (a baseline)
    tasks_per_epoch: int = 100  # validation comes after each epoch
    tasks_per_step: int = 1  # of all processes together
    augment: tuple[str, ...] = ()  # steps from resized_crop, color_jitter, flip and pad_crop
    rotation_classes: float = 0.0  # the share of a task's classes that are shown rotated, as new classes
    balance: float = 0.0  # weight of the contrastive term
    contrastive_temperature: float = 16.0  # of the contrastive term
    contrastive_scored: Scored = "adapted"  # which instances the contrastive term scores
    auxiliary: float = 0.0  # weight, at first, of telling all train classes apart (TADAM)
    joint: JointConfig | None = None  # classify images of all train classes in the same steps
    freeze_backbone: bool = False  # only adapter and head learn; each image is embedded once
    frozen_blocks: int = 0  # how many first blocks of the ConvNet stay as they are, computed once an image
    freeze_batchnorm: bool = False  # keep BatchNorm's statistics; the authors advise it for WRN
    precision: Precision = "float32"  # of the backbone's arithmetic; the weights are float32 either way
    validation_tasks: int = 600  # tasks of the val split that choose the best weights
    validation_way: int = 5  # their classes
    validation_query: int = 15  # and queries a class
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)

    later: ClassVar = ("related", "nearest", "auxiliary", "joint")

    def __post_init__(self) -> None:
        check_positive(
            self, "way", "shot", "query", "validation_tasks", "validation_way", "validation_query",
            "tasks_per_epoch", "tasks_per_step",
        )  # fmt: skip
        ways = max(self.way, self.validation_way)
        frozen = self.freeze_backbone or self.frozen_blocks
        batch = self.joint.batch if self.joint else 0
        problems = {
            "epochs, frozen_blocks, balance and auxiliary must be 0 or more": (
                min(self.epochs, self.frozen_blocks, self.balance, self.auxiliary) < 0
            ),
            "contrastive_temperature must be above 0": self.contrastive_temperature <= 0,
            "rotation_classes and related must be shares from 0 to 1": (
                not (0 <= self.rotation_classes <= 1 and 0 <= self.related <= 1)
            ),
            f"tasks_per_epoch ({self.tasks_per_epoch}) and train.joint.batch ({batch}) must be multiples of "
            f"tasks_per_step ({self.tasks_per_step})": (
                self.tasks_per_epoch % self.tasks_per_step or batch % self.tasks_per_step
            ),
            f"nearest is {self.nearest}, expected at least one less than the ways of training and validation "
            f"({ways})": self.related and self.nearest < ways - 1,
            "auxiliary classifies the classes of the train split, and rotation_classes are none of them; "
            "leave one of the two out": self.auxiliary and self.rotation_classes,
            "train.joint trains the whole backbone on all train classes; leave out freeze_backbone, "
            "frozen_blocks, auxiliary and rotation_classes": (
                self.joint and (frozen or self.auxiliary or self.rotation_classes)
            ),
            "freeze_backbone and frozen_blocks embed each image once, before the training, and once flipped "
            'with augment = ["flip"]; leave out other augmentation and precision': (
                frozen and (self.augment not in ((), ("flip",)) or self.precision != "float32")
            ),
            "freeze_backbone freezes everything in it; leave out frozen_blocks and freeze_batchnorm": (
                self.freeze_backbone and (self.freeze_batchnorm or self.frozen_blocks)
            ),
        }
        for message, wrong in problems.items():
            if wrong:
                raise UserError(message)


class TaskStage(ABC):
    """What all stages that learn from tasks have in common: the tasks of each step, and the optimiser.

    Training tasks are drawn from `index`, and the tasks that choose the best weights from `validation_index`.
    `learning` are the parameters of the backbone that learn, `others` all other parameters that learn.
    """

    title = "meta-training"

    def __init__(
        self,
        model: TaskModel,
        config: TrainConfig,
        seed: int,
        index: ClassIndex,
        validation_index: ClassIndex,
        learning: Iterable[nn.Parameter],
        others: Iterable[nn.Parameter],
    ) -> None:
        if config.epochs:
            _check_tasks(index, validation_index, config)
        self.model = model
        self.module: nn.Module = model
        self.auxiliary: AuxiliaryTask | None = None
        if config.auxiliary:
            dim = embedding_model(model, "the auxiliary task (train.auxiliary)", or_maps=True).dim
            with seeded(mix(seed, 0, Stream.AUXILIARY_WEIGHTS)):
                self.auxiliary = AuxiliaryTask(dim, index).to(device_of(model))
            self.module = nn.ModuleDict({"model": model, "auxiliary": self.auxiliary})
            others = [*others, *self.auxiliary.parameters()]
        self.config, self.seed = config, seed
        self.index, self.validation_index = index, validation_index
        self.per_step = PerStep("train.tasks_per_step", config.tasks_per_step)
        self.optimiser_config = config.optimiser
        self.optimiser = build_optimiser(config.optimiser, learning, others)
        self.epochs = config.epochs
        self.steps_per_epoch = config.tasks_per_epoch // config.tasks_per_step

    @abstractmethod
    def embed_tasks(self, items: Int[np.ndarray, "T N KQ"], first: int) -> Float[Tensor, "T N KQ *places D"]:
        """The embeddings or maps of tasks, from their items in the index and the number of the first task."""

    def step(self, number: int) -> Step:
        """This process's tasks of a step."""
        if self.config.freeze_batchnorm:
            _keep_statistics(self.model.backbone)
        first, items = self.tasks_of(number)
        embedded = self.embed_tasks(items, first)
        step = task_step(self.model, embedded, self.config)
        if self.auxiliary is None:
            return step
        share = self.auxiliary.share(number / (self.epochs * self.steps_per_epoch))
        also = self.auxiliary(cast(FewShotModel, self.model), embedded, items)
        return step._replace(loss=step.loss + self.config.auxiliary * share * also)

    def tasks_of(self, number: int) -> tuple[int, Int[np.ndarray, "T N KQ"]]:
        """The number of this process's first task of a step, and the items of its tasks."""
        first, last = (number * self.per_step.total + place for place in self.per_step.share())
        return first, sample_tasks(self.index, self.spec_of(number), first, last)

    def spec_of(self, number: int) -> TaskSpec:
        """The tasks of a step: whether their classes are related depends on the seed and the step alone."""
        config = self.config
        related = mix(self.seed, number, Stream.RELATED_TASKS) < config.related * 2**63
        nearest = config.nearest if related else 0
        return TaskSpec(config.way, config.shot, config.query, config.tasks_per_step, self.seed, nearest)

    @abstractmethod
    def embed_validation(self) -> tuple[Shaped[Tensor, "items *places D"], ClassIndex]:
        """The table that validation tasks gather from, and its index."""

    def validate(self) -> Score:
        """Score validation tasks, with the gate that does best on them where the model has one."""
        features, index = self.embed_validation()

        def score() -> Score:
            with evaluating(self.model) as model:
                scores = [score_tasks(model, features, index, spec) for spec in self.validation_specs]
            return Score.of(np.concatenate([each.per_task for each in scores]))

        return score_with_best_gate(self.model, score)

    @property
    def validation_specs(self) -> list[TaskSpec]:
        """The tasks that weights are chosen on, as many of them of related classes as in training."""
        config = self.config
        related = round(config.related * config.validation_tasks)
        way, query = config.validation_way, config.validation_query
        return [
            TaskSpec(way, config.shot, query, tasks, self.seed, nearest)
            for tasks, nearest in ((config.validation_tasks - related, 0), (related, config.nearest))
            if tasks
        ]

    def draw_rotations(self, first: int, shape: tuple[int, ...]) -> Int[Tensor, " B"]:
        """The quarter turns of the images of tasks from number `first` on, the same for all of a class."""
        tasks, way, per_class = shape
        seeds = (mix(self.seed, first + task, Stream.TASK_ROTATION) for task in range(tasks))
        share = self.config.rotation_classes
        drawn = [draw_rotations(way, share, torch.Generator().manual_seed(seed)) for seed in seeds]
        return torch.cat(drawn).repeat_interleave(per_class)


class MetaTraining(TaskStage):
    """The whole model on sampled tasks: task loss plus the contrastive term."""

    def __init__(self, model: TaskModel, items: TrainingItems, config: TrainConfig, seed: int) -> None:
        indices = items.train.index, items.val.index
        super().__init__(model, config, seed, *indices, model.backbone.parameters(), beside_backbone(model))
        self.images, self.train, self.val = items.images, items.train, items.val

    def embed_validation(self) -> tuple[Shaped[Tensor, "items *places D"], ClassIndex]:
        return embed_images(self.model, self.images.images, self.val.rows), self.validation_index

    def embed_tasks(self, items: Int[np.ndarray, "T N KQ"], first: int) -> Float[Tensor, "T N KQ *places D"]:
        """All images go through the backbone at once.

        BatchNorm sees them together, as in the authors' runs (with one task a step), unless it is frozen.
        """
        embedded = embed_batch(self.model, self.load_tasks(items, first), self.config.precision)
        return embedded.view(*items.shape, *embedded.shape[1:])

    def load_tasks(self, items: Int[np.ndarray, "T N KQ"], first: int) -> Float[Tensor, "B 3 size size"]:
        """The images of tasks, one class after another, augmented and normalised."""
        rows: np.ndarray = self.train.rows[items]
        # A seed for each task, so that it does not matter which process augments it.
        seeds = [mix(self.seed, task, Stream.AUGMENTATION) for task in range(first, first + len(rows))]
        parts = [
            load_batch(self.model, self.images.images, task.reshape(-1), self.config.augment, seed)
            for task, seed in zip(rows, seeds, strict=True)
        ]
        images = parts[0] if len(parts) == 1 else torch.cat(parts)
        if self.config.rotation_classes:
            images = rotate(images, self.draw_rotations(first, rows.shape).to(images.device))
        return images


def beside_backbone(model: TaskModel) -> list[nn.Parameter]:
    """The parameters of a model that are not its backbone's."""
    backbone = set(model.backbone.parameters())
    return [parameter for parameter in model.parameters() if parameter not in backbone]


def _keep_statistics(backbone: nn.Module) -> None:
    """Let BatchNorm normalise by its running statistics, and update them no more."""
    for module in backbone.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.eval()


def _check_tasks(train: ClassIndex, val: ClassIndex, config: TrainConfig) -> None:
    """Reject, before the first step, tasks that cannot be drawn from the train or the val split."""
    for split_name, index, prefix in (("train", train, ""), ("val", val, "validation_")):
        way, query = (getattr(config, f"{prefix}{key}") for key in ("way", "query"))
        try:
            index.check(way, config.shot, query)
            if config.related:
                index.anchors(way, config.nearest)
        except UserError as error:
            keys = f"train.{prefix}way, shot, {prefix}query"
            raise UserError(f"tasks of the {split_name} split ({keys}): {error}") from None


def task_step(model: TaskModel, items: Float[Tensor, "T N KQ *places D"], config: TrainConfig) -> Step:
    """Loss and accuracy of embedded tasks: the task loss, and the contrastive term by its weight."""
    support, query, labels = split(items, config.shot)
    logits = model(support, query)
    loss = task_loss(logits, labels).mean()
    if config.balance:
        embedding = embedding_model(model, "the contrastive term (train.balance)")
        similarity: Similarity = embedding.head.similarity  # type: ignore[assignment]
        contrasted = contrastive_logits(
            embedding.transform, items, similarity, config.contrastive_temperature, config.contrastive_scored
        )
        loss = loss + config.balance * task_loss(*contrasted).mean()
    return Step(loss, task_accuracy(logits, labels).mean())


def score_with_best_gate(model: TaskModel, score: Callable[[], Score]) -> Score:
    """The best of the scores with each of `GATES`; the model keeps that gate.

    Of equally good gates the largest is taken. A model without a gate is scored once. All gates are scored on
    the same tasks, and gate 0 is the model without its adaptation, so here the model is never behind that.
    """
    gate = dict(model.named_buffers(recurse=False)).get("gate")
    if gate is None:
        return score()
    scores = {}
    for value in GATES:
        gate.fill_(value)
        scores[value] = score()
    best = max(GATES, key=lambda value: (scores[value].mean, value))
    gate.fill_(best)
    return scores[best]
