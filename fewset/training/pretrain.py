"""Pre-training: classify all classes of the train split, select by 1-shot tasks over the val classes.

Not in the paper: label smoothing and a moving average of the weights, both off by default.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from fewset.compute.devices import Precision
from fewset.core.errors import UserError
from fewset.core.randomness import Stream, mix
from fewset.evaluation.embedding import embed_images, evaluating
from fewset.evaluation.scoring import score_tasks
from fewset.models.model import FewShotModel
from fewset.models.task_model import device_of
from fewset.tasks.scores import Score
from fewset.tasks.spec import TaskSpec
from fewset.training.batches import TrainingItems, check_positive, embed_batch, load_batch
from fewset.training.loop import PerStep, Step, rank_seed
from fewset.training.optimiser import OptimiserConfig, build_optimiser
from fewset.training.seeding import seeded


@dataclass(frozen=True)
class PretrainConfig:
    """Pre-training of the backbone. The defaults are those of the paper's ConvNet on miniImageNet.

    `init` may be a pre-training on smaller images, for example, which takes a fraction of the time.
    """

    init: str = ""  # where the backbone starts from; random weights when empty
    epochs: int = 800  # with 0 the weights of `init` stay as they are
    batch: int = 128  # images in a step, of all processes together
    augment: tuple[str, ...] = ("resized_crop", "color_jitter", "flip")  # as in meta-training; or pad_crop
    validation_tasks: int = 200  # 1-shot tasks over all val classes that choose the best weights
    validation_query: int = 15  # queries a class in these
    label_smoothing: float = 0.0  # of the classification loss
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

    later: ClassVar = ("average",)

    def __post_init__(self) -> None:
        check_positive(self, "validation_tasks", "validation_query")
        if not (0 <= self.average < 1 and 0 <= self.label_smoothing <= 1):
            raise UserError(
                "pretrain.average must be from 0 to less than 1, pretrain.label_smoothing from 0 to 1, got "
                f"{self.average} and {self.label_smoothing}"
            )
        least = 0 if self.init else 1
        if self.epochs < least or self.batch < 2:
            raise UserError(
                f"pretrain.epochs must be {least} or more and pretrain.batch 2 or more, got {self.epochs} "
                f"and {self.batch}"
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
            self.classifier = nn.Linear(model.dim, len(classes)).to(device_of(model))
        self.optimiser_config = config.optimiser
        self.optimiser = build_optimiser(
            config.optimiser, model.backbone.parameters(), self.classifier.parameters()
        )
        self.model: FewShotModel = model
        self.module = nn.ModuleDict({"model": model, "classifier": self.classifier})
        if config.average:
            average = _moving_average(self.module, self.optimiser, config.average)
            self.model = average.module["model"]  # type: ignore[index]
            self.module = nn.ModuleDict({**self.module, "average": average})
        self.epochs = config.epochs
        self.batch = min(config.batch, len(self.train.rows))
        self.per_step = PerStep("pretrain.batch", self.batch)
        # Images that are too few for a last batch wait for another epoch.
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
        )
        targets = torch.from_numpy(self.targets[chosen]).to(images.device)
        logits = self.classifier(embed_batch(self.trained, images, self.config.precision))
        loss = F.cross_entropy(logits, targets, label_smoothing=self.config.label_smoothing)
        return Step(loss, (logits.argmax(-1) == targets).float().mean())

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


def _moving_average(model: nn.Module, optimiser: torch.optim.Optimizer, decay: float) -> AveragedModel:
    """A copy of a model that becomes decay * copy + (1 - decay) * model after each step of the optimiser.

    BatchNorm's statistics are averaged alike. The copy is a module, so a checkpoint holds it.
    """
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)  # type: ignore[no-untyped-call]
    average.requires_grad_(False)
    optimiser.register_step_post_hook(lambda *_: average.update_parameters(model))
    return average
