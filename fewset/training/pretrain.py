"""Pre-training: classify all classes of the train split, select by 1-shot tasks over the val classes.

Two options are not the paper's: rotation as a second task, and a moving average of the weights.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from fewset.compute.devices import Precision
from fewset.core.errors import UserError
from fewset.core.randomness import Stream, mix
from fewset.data.images.augmentation import AREA, Area, rotate
from fewset.evaluation.embedding import embed_images, evaluating
from fewset.evaluation.scoring import score_tasks
from fewset.models.model import FewShotModel
from fewset.models.task_model import device_of
from fewset.tasks.scores import Score
from fewset.tasks.spec import TaskSpec
from fewset.training.batches import TrainingItems, check_crop_area, check_positive, embed_batch, load_batch
from fewset.training.loop import PerStep, Step, rank_seed
from fewset.training.optimiser import OptimiserConfig, build_optimiser
from fewset.training.seeding import seeded


@dataclass(frozen=True)
class PretrainConfig:
    """Pre-training of the backbone. The defaults are those of the paper's ConvNet on miniImageNet.

    `init` is as in meta-training: another pre-training on smaller images, for example, which costs a
    fraction.
    """

    init: str = ""  # where the backbone starts from; random weights when empty
    epochs: int = 800  # with 0 the weights of `init` stay as they are
    batch: int = 128  # images in a step, of all processes together
    augment: tuple[str, ...] = ("resized_crop", "color_jitter", "flip")  # as in meta-training; or pad_crop
    crop_area: Area = AREA  # the least and largest share of an image that resized_crop takes
    validation_tasks: int = 200  # 1-shot tasks over all val classes that choose the best weights
    validation_query: int = 15  # queries a class in these
    label_smoothing: float = 0.0  # of the classification loss
    rotation: float = 0.0  # weight of a second task: by how many quarters each image is turned
    average: float = 0.0  # decay of a moving average of the weights, which is validated and kept: 0.999
    precision: Precision = "float32"  # of the backbone's arithmetic; the weights are float32 either way
    optimiser: OptimiserConfig = field(
        default_factory=lambda: OptimiserConfig(
            lr=1e-3,
            other_lr_scale=1.0,
            weight_decay=5e-4,
            schedule="milestones",
            gamma=0.1,
            milestones=(170, 300, 400, 500),
        )
    )

    later: ClassVar = ("crop_area", "rotation", "average")

    def __post_init__(self) -> None:
        check_crop_area(self.crop_area, self.augment)
        check_positive(self, "validation_tasks", "validation_query")
        if self.rotation < 0 or not 0 <= self.average < 1:
            raise UserError(
                f"pretrain.rotation must be 0 or more and pretrain.average from 0 to less than 1, got "
                f"{self.rotation} and {self.average}"
            )
        if not 0 <= self.label_smoothing <= 1:
            raise UserError(
                f"pretrain.label_smoothing is {self.label_smoothing}, expected a share from 0 to 1"
            )
        least = 0 if self.init else 1
        if self.epochs < least or self.batch < 2:
            raise UserError(
                f"pretrain.epochs must be {least} or more and pretrain.batch 2 or more,"
                f" got {self.epochs} and {self.batch}"
            )


class Pretraining:
    """The backbone with a softmax layer over the classes of the train split."""

    title = "pre-training"

    def __init__(self, model: FewShotModel, items: TrainingItems, config: PretrainConfig, seed: int) -> None:
        self.trained, self.config, self.seed = model, config, seed
        self.images, self.train, self.val = items.images, items.train, items.val
        classes, self.targets = np.unique(self.train.labels, return_inverse=True)
        if config.epochs:
            self.val.index.check(len(np.unique(self.val.labels)), 1, config.validation_query)
        with seeded(mix(seed, 0, Stream.CLASSIFIER_WEIGHTS)):
            self.classifier = nn.Linear(model.dim, len(classes))
            parts: dict[str, nn.Module] = {"classifier": self.classifier}
            if config.rotation:
                parts["rotation"] = nn.Linear(model.dim, 4)
        parts = {"model": model, **nn.ModuleDict(parts).to(device_of(model))}
        others = [parameter for name in parts if name != "model" for parameter in parts[name].parameters()]
        self.optimiser_config = config.optimiser
        self.optimiser = build_optimiser(config.optimiser, model.backbone.parameters(), others)
        self.model: FewShotModel = model
        self.module = nn.ModuleDict(parts)
        if config.average:
            average = _follow(self.module, self.optimiser, config.average)
            self.model = average.module["model"]  # type: ignore[index]
            self.module = nn.ModuleDict({**parts, "average": average})
        self.epochs = config.epochs
        self.batch = min(config.batch, len(self.train.rows))
        self.per_step = PerStep("pretrain.batch", self.batch)
        # A rest smaller than a batch waits an epoch.
        self.steps_per_epoch = len(self.train.rows) // self.batch
        self._epoch, self._order = -1, np.empty(0, dtype=np.int64)

    def step(self, number: int) -> Step:
        """This process's images of a step."""
        chosen = self._batch(*divmod(number, self.steps_per_epoch))
        images = load_batch(
            self.trained,
            self.images.images,
            self.train.rows[chosen],
            self.config.augment,
            mix(self.seed, number, Stream.AUGMENTATION, *rank_seed()),
            self.config.crop_area,
        )
        targets = torch.from_numpy(self.targets[chosen]).to(images.device)
        if not self.config.rotation:
            logits = self.classifier(embed_batch(self.trained, images, self.config.precision))
            return Step(self._loss(logits, targets), _accuracy(logits, targets))
        turns = self._draw_turns(number, len(images)).to(images.device)
        both = torch.cat([images, rotate(images, turns)])
        embedded = embed_batch(self.trained, both, self.config.precision)
        logits, turned = self.classifier(embedded[: len(images)]), embedded[len(images) :]
        rotation = F.cross_entropy(self.module["rotation"](turned), turns)
        loss = self._loss(logits, targets) + self.config.rotation * rotation
        return Step(loss, _accuracy(logits, targets))

    def _loss(self, logits: Float[Tensor, "B classes"], targets: Int[Tensor, " B"]) -> Float[Tensor, ""]:
        return F.cross_entropy(logits, targets, label_smoothing=self.config.label_smoothing)

    def _draw_turns(self, number: int, count: int) -> Int[Tensor, " {count}"]:
        seed = mix(self.seed, number, Stream.IMAGE_ROTATION, *rank_seed())
        return torch.randint(4, (count,), generator=torch.Generator().manual_seed(seed))

    def validate(self) -> Score:
        """1-shot tasks over all classes of the val split, nearest prototype on the embeddings."""
        spec = TaskSpec(
            way=len(np.unique(self.val.labels)),
            shot=1,
            query=self.config.validation_query,
            tasks=self.config.validation_tasks,
            seed=self.seed,
        )
        features = embed_images(self.model, self.images.images, self.val.rows)
        with evaluating(self.model) as model:
            return score_tasks(model, features, self.val.index, spec)

    def _batch(self, epoch: int, within: int) -> np.ndarray:
        if epoch != self._epoch:
            generator = np.random.Generator(np.random.PCG64(mix(self.seed, epoch, Stream.EPOCH_ORDER)))
            self._epoch, self._order = epoch, generator.permutation(len(self.train.rows))
        first, last = (within * self.batch + place for place in self.per_step.share())
        return self._order[first:last]


def _follow(model: nn.Module, optimiser: torch.optim.Optimizer, decay: float) -> AveragedModel:
    """The exponential moving average of a model over the optimiser's steps, its first being a copy.

    After each step it is `decay` times what it was plus the rest of what the model is. So are the statistics
    of BatchNorm: those of the last epochs, by the same weights. It is a module, so a checkpoint holds it.
    """
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)  # type: ignore[no-untyped-call]
    average.requires_grad_(False)
    optimiser.register_step_post_hook(lambda *_: average.update_parameters(model))
    return average


def _accuracy(logits: Float[Tensor, "B classes"], targets: Int[Tensor, " B"]) -> Float[Tensor, ""]:
    return (logits.argmax(-1) == targets).float().mean()
