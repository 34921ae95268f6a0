"""Joint training: each step classifies images of all train classes and solves tasks, without pre-training.

With a batch B of images, the images E of the step's tasks, a linear classifier over the train classes and the
weight w (`task_weight`), the loss of a step is

    cross-entropy(B) + cross-entropy(E) + w · task loss(E)

as in CAN (Hou et al., 2019) and RENet (Kang et al., 2021). Two deviations: B and E go through the backbone
together, so BatchNorm sees both, and all images of a task are classified, not only its queries. With
`splits` above 1 the task loss is the mean over several divisions of the same embeddings into support and
queries, which costs little beside the backbone.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from fewset.core.randomness import Stream, mix
from fewset.models.model import FewShotModel
from fewset.models.task_model import device_of
from fewset.training.auxiliary import AuxiliaryTask
from fewset.training.batches import TrainingItems, embed_batch, load_batch
from fewset.training.episodic import MetaTraining, TaskStage, TrainConfig, beside_backbone, task_step
from fewset.training.loop import PerStep, Step, rank_seed
from fewset.training.seeding import seeded


class JointTraining(MetaTraining):
    """The whole model and a classifier of the train classes, in the same steps."""

    title = "joint training"

    def __init__(self, model: FewShotModel, items: TrainingItems, config: TrainConfig, seed: int) -> None:
        with seeded(mix(seed, 0, Stream.JOINT_CLASSIFIER_WEIGHTS)):
            self.classes = AuxiliaryTask(model.dim, items.train.index).to(device_of(model))
        others = [*beside_backbone(model), *self.classes.parameters()]
        indices = items.train.index, items.val.index
        TaskStage.__init__(self, model, config, seed, *indices, model.backbone.parameters(), others)
        self.module = nn.ModuleDict({"model": model, "classes": self.classes})
        assert config.joint is not None  # as in every recipe of this stage
        self.joint = config.joint
        self.images, self.train, self.val = items.images, items.train, items.val

    def step(self, number: int) -> Step:
        """This process's images and tasks of a step."""
        config = self.config
        first, items = self.tasks_of(number)
        chosen = self.batch_of(number)
        batch = load_batch(
            self.model,
            self.images.images,
            self.train.rows[chosen],
            config.augment,
            mix(self.seed, number, Stream.JOINT_AUGMENTATION, *rank_seed()),
        )
        images = torch.cat([batch, self.load_tasks(items, first)])
        embedded = embed_batch(self.model, images, config.precision)
        in_batch, in_tasks = embedded[: len(chosen)], embedded[len(chosen) :]
        classified = self.classes.loss(in_batch, chosen) + self.classes.loss(in_tasks, items.reshape(-1))
        generator = torch.Generator().manual_seed(self.split_seed(number))
        tasks = resplit(in_tasks.view(*items.shape, -1), self.joint.splits, generator)
        step = task_step(self.model, tasks, config)
        return step._replace(loss=classified + self.joint.task_weight * step.loss)

    def batch_of(self, number: int) -> Int[np.ndarray, " B"]:
        """The items of the train split that this process classifies beside its tasks of a step."""
        drawn = np.random.Generator(np.random.PCG64(mix(self.seed, number, Stream.JOINT_BATCH)))
        batch = drawn.permutation(len(self.train.rows))[: self.joint.batch]
        return batch[slice(*PerStep("train.joint.batch", len(batch)).share())]

    def split_seed(self, number: int) -> int:
        """The seed of the divisions of a step's tasks into support and queries."""
        return mix(self.seed, number, Stream.JOINT_SPLIT, *rank_seed())


def resplit(
    tasks: Float[Tensor, "T N KQ D"], splits: int, generator: torch.Generator
) -> Float[Tensor, "TS N KQ D"]:
    """The tasks as they are, then `splits` - 1 times with the items of each class in a random order."""
    count, way, per_class, dim = tasks.shape
    orders = torch.rand(splits - 1, count, way, per_class, generator=generator).argsort(dim=-1)
    orders = orders.unsqueeze(-1).expand(-1, -1, -1, -1, dim).to(tasks.device)
    again = tasks.expand(splits - 1, -1, -1, -1, -1).gather(3, orders)
    return torch.cat([tasks, again.flatten(0, 1)])
