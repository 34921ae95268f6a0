"""Pre-training: classify all classes of the train split, select by 1-shot tasks over the val classes."""

from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from fewset.evaluation.scoring import evaluate_selection
from fewset.models.model import FewShotModel
from fewset.runtime import distributed
from fewset.runtime.devices import Precision
from fewset.runtime.errors import UserError
from fewset.tasks.hashing import mix
from fewset.tasks.scores import Score
from fewset.tasks.spec import TaskSpec
from fewset.training.batches import TrainingItems, embed_batch, load_batch
from fewset.training.loop import Step
from fewset.training.optimiser import OptimiserConfig, build_optimiser


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
    validation_tasks: int = 200  # 1-shot tasks over all val classes that choose the best weights
    validation_query: int = 15  # queries a class in these
    label_smoothing: float = 0.0  # of the classification loss
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

    def __post_init__(self) -> None:
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
        self.model, self.config, self.seed = model, config, seed
        self.images, self.train, self.val = items.images, items.train, items.val
        classes, self.targets = np.unique(self.train.labels, return_inverse=True)
        if config.epochs:
            self.val.index.check(len(np.unique(self.val.labels)), 1, config.validation_query)
        torch.manual_seed(mix(seed, 0, 3))
        self.classifier = nn.Linear(model.dim, len(classes)).to(next(model.parameters()).device)
        self.module = nn.ModuleDict({"model": model, "classifier": self.classifier})
        self.optimiser_config = config.optimiser
        self.optimiser = build_optimiser(
            config.optimiser, model.backbone.parameters(), self.classifier.parameters()
        )
        self.epochs = config.epochs
        self.batch = min(config.batch, len(self.train.rows))
        self.portion = distributed.local_batch(self.batch, "pretrain.batch")
        # A rest smaller than a batch waits an epoch.
        self.steps_per_epoch = len(self.train.rows) // self.batch
        self._epoch, self._order = -1, np.empty(0, dtype=np.int64)

    def step(self, number: int) -> Step:
        chosen = self._batch(*divmod(number, self.steps_per_epoch))
        images = load_batch(
            self.model,
            self.images.images,
            self.train.rows[chosen],
            self.config.augment,
            mix(self.seed, number, 1, *distributed.rank_seed()),
        )
        targets = torch.from_numpy(self.targets[chosen]).to(images.device)
        logits = self.classifier(embed_batch(self.model, images, self.config.precision))
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
        return evaluate_selection(self.model, self.images, self.val, spec)

    def _batch(self, epoch: int, within: int) -> np.ndarray:
        """The images of a step, or this process's part of them."""
        if epoch != self._epoch:
            generator = np.random.Generator(np.random.PCG64(mix(self.seed, epoch, 2)))
            self._epoch, self._order = epoch, generator.permutation(len(self.train.rows))
        first, last = (within * self.batch + place for place in self.portion)
        return self._order[first:last]
