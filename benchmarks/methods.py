"""Every head on thousands of tasks at once, against one task after another as published code has it.

The rows are made up: 20 classes of 600, as in miniImageNet's test split. The plain side draws its tasks with
Python's own generator and stacks their rows one by one. The arithmetic of a task is the same on both sides,
so what is compared is drawing and scoring many tasks at once with doing so one by one.
"""

import random
import time
from collections.abc import Sequence
from inspect import signature

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fewset.bench.measuring import Measuring, Record, measure_sides, median_of, time_ratio
from fewset.bench.photo_sides import SEED
from fewset.bench.workers import Repetition, Side
from fewset.compute.devices import pick_device
from fewset.core.errors import refuse_unknown
from fewset.evaluation.embedding import evaluating
from fewset.evaluation.scoring import score_tasks, task_accuracy
from fewset.models.adapters.identity import Identity
from fewset.models.backbones.features import FeatureInput
from fewset.models.heads import HEADS
from fewset.models.method_info import method_info
from fewset.models.model import FewShotModel
from fewset.tasks.episode import split
from fewset.tasks.sampling import ClassIndex
from fewset.tasks.spec import TaskSpec

CLASSES, ITEMS = 20, 600
LARGE = ("ridge", "pt_map", "tim", "laplacian_shot")
"""The heads that are timed with larger rows, too."""
_WARM_UP = 64  # tasks


def measure_methods(
    setup: Measuring,
    *,
    heads: Sequence[str] = (),
    dim: int = 64,
    large: int = 640,
    way: int = 5,
    shot: int = 1,
    query: int = 15,
    tasks: int = 10_000,
    plain_tasks: int = 30,
) -> Record:
    """Every head (or these) on many tasks at once, against one task after another; a few with larger rows.

    One task after another is measured on `plain_tasks` in each repetition and extrapolated to all `tasks`.
    """
    chosen = heads or [name for name, head in HEADS.items() if method_info(head).takes == "embeddings"]
    for name in chosen:
        refuse_unknown("head", name, HEADS)
    size = {"device": str(pick_device(setup.device)), "way": way, "shot": shot, "query": query}
    record: Record = {"sides": []}
    ratios = []
    for name in chosen:
        options = {"head": name, "dim": dim, **size}
        (many, single), measured = measure_sides(
            setup,
            {
                f"{name}, this engine": Side(ManyTasks, {**options, "tasks": tasks}),
                f"{name}, one task at a time": Side(OneByOne, {**options, "tasks": plain_tasks}, tuned=False),
            },
        )
        record = {**measured, "sides": record["sides"] + measured["sides"]}
        kind = "iterative" if _STEPS & signature(HEADS[name]).parameters.keys() else "closed form"
        what = f"{name} ({kind}), one task at a time / this engine"
        ratios.append(time_ratio(what, single, many, tasks / plain_tasks))
    facts = []
    for name in (name for name in LARGE if name in chosen):
        options = {"head": name, "dim": large, **size, "tasks": tasks}
        side = {f"{name}, {large} dimensions, this engine": Side(ManyTasks, options)}
        (many,), measured = measure_sides(setup, side)
        record["sides"] = record["sides"] + measured["sides"]
        facts.append(
            f"{tasks:,} tasks of {name} with rows of {large} dimensions take {median_of(many):.1f} s"
        )
    record["part"] = "methods"
    record["options"] = {"heads": list(chosen), "dim": dim, "large": large, **size, "tasks": tasks}
    record["ratios"], record["facts"] = ratios, facts
    return record


def made_up_rows(dim: int) -> Float[Tensor, "items D"]:
    """Rows of overlapping classes, class by class; no value is below 0, as after a ReLU."""
    generator = torch.Generator().manual_seed(SEED)
    centres = torch.randn(CLASSES, 1, dim, generator=generator)
    return (centres + 2 * torch.randn(CLASSES, ITEMS, dim, generator=generator)).relu().flatten(0, 1)


_STEPS = {"steps", "reads"}  # an option of iterative heads


class MethodSide:
    """A head with its defaults, and the rows and the size of the tasks."""

    def __init__(self, head: str, dim: int, device: str, **spec: int) -> None:
        place = pick_device(device)
        self.features, self.spec = made_up_rows(dim).to(place), TaskSpec(seed=SEED, **spec)
        torch.manual_seed(SEED)
        made = HEADS[head](dim)
        average = "post" if method_info(made).every_shot else "pre"
        self.model = FewShotModel(FeatureInput(dim), Identity(dim), made, average).to(place)

    @property
    def rows(self) -> int:
        """In a task."""
        return self.spec.way * (self.spec.shot + self.spec.query)


class ManyTasks(MethodSide):
    """All tasks by this engine; the first time, which does not count, only a few."""

    def __init__(self, head: str, dim: int, device: str, **spec: int) -> None:
        super().__init__(head, dim, device, **spec)
        self.index = ClassIndex(np.repeat(np.arange(CLASSES), ITEMS))
        self.warm = False

    def __call__(self) -> Repetition:
        tasks = self.spec.tasks if self.warm else min(_WARM_UP, self.spec.tasks)
        spec = TaskSpec(self.spec.way, self.spec.shot, self.spec.query, tasks, self.spec.seed)
        self.warm = True
        began = time.perf_counter()
        with evaluating(self.model) as model:
            score_tasks(model, self.features, self.index, spec)
        return {"seconds": time.perf_counter() - began, "images": tasks * self.rows}


class OneByOne(MethodSide):
    """One task after another. Outside of the time that counts, this engine must score them alike."""

    def __init__(self, head: str, dim: int, device: str, **spec: int) -> None:
        super().__init__(head, dim, device, **spec)
        self.random = random.Random(SEED)

    def __call__(self) -> Repetition:
        way, each = self.spec.way, self.spec.shot + self.spec.query
        drawn, accuracies = [], []
        began = time.perf_counter()
        with torch.no_grad(), evaluating(self.model) as model:
            for _ in range(self.spec.tasks):
                classes = self.random.sample(range(CLASSES), way)
                numbers = [
                    ITEMS * label + item
                    for label in classes
                    for item in self.random.sample(range(ITEMS), each)
                ]
                items = torch.stack([self.features[number] for number in numbers]).view(1, way, each, -1)
                support, query, labels = split(items, self.spec.shot)
                accuracies.append(float(task_accuracy(model(support, query), labels)))
                drawn.append(numbers)
            seconds = time.perf_counter() - began
            items = self.features[torch.tensor(drawn).view(-1, way, each)]
            support, query, labels = split(items, self.spec.shot)
            together = task_accuracy(model(support, query), labels)
        largest = float((together.cpu() - torch.tensor(accuracies)).abs().max())
        if largest > 1.01 / (way * self.spec.query):
            raise RuntimeError(f"tasks are scored otherwise one by one, by {largest}: a defect, report it")
        return {"seconds": seconds, "images": self.spec.tasks * self.rows}
