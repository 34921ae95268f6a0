"""What is measured: each side is an object that is made once and called for each repetition.

"Published" and "plain" sides do what published code does: NCHW, convolution, BatchNorm, ReLU and pooling in
this order, one task after another, in a process with PyTorch's default settings.
"""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from fewset.bench.photo_sides import SEED, write_photographs
from fewset.bench.workers import Repetition
from fewset.compute.devices import pick_device
from fewset.core.randomness import mix
from fewset.data.images.augmentation import center_crop
from fewset.data.images.decoding import decode, encode
from fewset.data.images.importing import import_set
from fewset.data.images.store import ImageSet, open_set
from fewset.evaluation.embedding import embed_images, evaluating
from fewset.evaluation.scoring import score_tasks, task_accuracy
from fewset.experiments.build import build_model
from fewset.experiments.config import ModelConfig
from fewset.models.model import FewShotModel, embedding_model
from fewset.tasks.episode import split
from fewset.tasks.sampling import sample_tasks
from fewset.tasks.spec import TaskSpec
from fewset.training.batches import TrainingItems, load_batch
from fewset.training.episodic import MetaTraining, TrainConfig
from fewset.training.loop import Stage, train_step
from fewset.training.pretrain import PretrainConfig, Pretraining


def model_for(images: ImageSet, backbone: str, size: int | None, device: str) -> FewShotModel:
    """ProtoNet with random weights, for images of `size` (84, or what the set has)."""
    size = size or min(84, images.images.shape[1])
    model = build_model(ModelConfig(backbone, {"input_size": size}), SEED)
    return embedding_model(model, "fewset bench").to(pick_device(device))


def clock(model: nn.Module) -> float:
    """The time when the model's device has done what it was given: a GPU is given work ahead of time."""
    device = next(model.parameters()).device
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class PlainModel(FewShotModel):
    """A model as published code has it: the same weights, NCHW, and ReLU before the pooling."""

    def __init__(self, model: FewShotModel) -> None:
        super().__init__(model.backbone, model.adapter, model.head)
        for block in (each for each in self.backbone.modules() if isinstance(each, nn.Sequential)):
            for place in range(len(block) - 1):
                pool, activation = block[place], block[place + 1]
                if isinstance(pool, nn.MaxPool2d) and isinstance(activation, nn.ReLU):
                    block[place], block[place + 1] = activation, pool

    def embed(self, images: Shaped[Tensor, "B 3 H W"]) -> Float[Tensor, "B D"]:
        return self.embed_normalised(images.contiguous())


class Scoring:
    """A model, and the tasks of a split that it is scored on."""

    def __init__(
        self, data: str, split: str, backbone: str, size: int | None, device: str, **spec: int
    ) -> None:
        self.images, self.spec = open_set(data), TaskSpec(**spec)
        self.items = self.images.select(split)
        self.model = model_for(self.images, backbone, size, device)


class EmbeddedSplit(Scoring):
    """Embed a split once, then score every task on the table."""

    def __call__(self) -> Repetition:
        began = clock(self.model)
        features = embed_images(self.model, self.images.images, self.items.rows)
        embedded = clock(self.model)
        with evaluating(self.model) as model:
            score = score_tasks(model, features, self.items.index, self.spec)
        return {
            "seconds": clock(self.model) - began,
            "embedding_seconds": embedded - began,
            "images": len(self.items.rows),
            "accuracies": score.per_task.tolist(),
        }


class Published(Scoring):
    """Each task decodes its images from files in memory and embeds them again.

    The files are PNG: they keep every pixel, so that both sides see the same images.
    """

    def __init__(self, each: int, **options: Any) -> None:
        super().__init__(**options)
        self.each, self.done = each, 0
        self.model = PlainModel(self.model).eval()

    def __call__(self) -> Repetition:
        """The next `each` tasks."""
        loading, accuracies = 0.0, []
        first, self.done = self.done, self.done + self.each
        stored = self.images.images.shape[1]
        chosen = np.unique(self.items.rows[sample_tasks(self.items.index, self.spec, first, self.done)])
        files = {int(row): encode(self.images.images[row], "PNG") for row in chosen}
        device = next(self.model.parameters()).device
        began = clock(self.model)
        for number in range(first, self.done):
            rows = self.items.rows[sample_tasks(self.items.index, self.spec, number, number + 1)]
            start = time.perf_counter()
            pixels = np.stack([decode(files[row], stored).pixels for row in rows.flat])
            loading += time.perf_counter() - start
            with torch.no_grad():
                batch = torch.from_numpy(pixels).to(device).permute(0, 3, 1, 2)
                batch = self.model.prepare(center_crop(batch, self.model.input_size))
                episode = split(self.model.embed(batch).view(*rows.shape, -1), self.spec.shot)
                logits = self.model(episode.support, episode.query)
            accuracies.append(float(task_accuracy(logits, episode.query_labels)))
        return {
            "seconds": clock(self.model) - began,
            "loading_seconds": loading,
            "images": self.each * self.spec.way * (self.spec.shot + self.spec.query),
            "first": first,
            "accuracies": accuracies,
        }


class Training:
    """Steps of pre-training ("pretrain") or of meta-training ("train") on tasks of these sizes."""

    def __init__(
        self,
        kind: str,
        data: str,
        backbone: str,
        size: int | None,
        device: str,
        batch: int,
        steps: int,
        plain: bool,
        **task: int,
    ) -> None:
        items = TrainingItems.of(open_set(data))
        model = model_for(items.images, backbone, size, device)
        if plain:
            model = PlainModel(model)
        self.stage: Stage
        # Nothing is validated here: a set need not have the items for it.
        if kind == "pretrain":
            self.stage = Pretraining(model, items, PretrainConfig(batch=batch, validation_query=1), SEED)
            self.images = self.stage.batch
        else:
            config = TrainConfig(validation_query=1, **task)  # type: ignore[arg-type]
            self.stage = MetaTraining(model, items, config, SEED)
            self.images = config.way * (config.shot + config.query)
        self.steps, self.done = steps, 0

    def __call__(self) -> Repetition:
        began = clock(self.stage.model)
        for _ in range(self.steps):
            train_step(self.stage, self.done)
            self.done += 1
        return {"seconds": clock(self.stage.model) - began, "images": self.steps * self.images}


class Input:
    """Batches for pre-training: gathered from the store, augmented, normalised."""

    def __init__(
        self, data: str, backbone: str, size: int | None, device: str, batch: int, steps: int
    ) -> None:
        self.images = open_set(data)
        self.model = model_for(self.images, backbone, size, device)
        self.rows = self.images.select("train").rows
        self.batch, self.steps, self.done = batch, steps, 0

    def __call__(self) -> Repetition:
        began = clock(self.model)
        for _ in range(self.steps):
            chosen = np.random.default_rng(mix(SEED, self.done)).choice(self.rows, self.batch)
            load_batch(self.model, self.images.images, chosen, PretrainConfig().augment, self.done)
            self.done += 1
        return {"seconds": clock(self.model) - began, "images": self.steps * self.batch}


class Import:
    """A folder of photographs (JPEG, 500 x 375, made up) into the store of a home of its own."""

    def __init__(self, images: int) -> None:
        self.scratch, self.images = tempfile.TemporaryDirectory(), images
        os.environ["FEWSET_HOME"] = self.scratch.name  # of this process alone
        self.photographs = Path(self.scratch.name) / "photographs"
        write_photographs(self.photographs, images, 500, 375)

    def __call__(self) -> Repetition:
        began = time.perf_counter()
        import_set("folder", self.photographs, "photographs", replace=True)
        return {"seconds": time.perf_counter() - began, "images": self.images}
