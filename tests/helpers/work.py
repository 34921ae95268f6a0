"""What one process and several do alike, for `test_distributed`.

`tests/helpers/work.py RUNS TABLE` under torchrun does `everything` with the runs, and leaves its arrays
beside them.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fewset.compute import distributed
from fewset.data.features.table import open_features
from fewset.data.images.store import open_set
from fewset.evaluation import scoring as evaluation
from fewset.evaluation.protocols.low_shot import choose_prior, evaluate_low_shot
from fewset.experiments.recipes import parse_recipe
from fewset.experiments.score_run import evaluate_run
from fewset.experiments.train_run import execute
from fewset.models.adapters.attention import Attention
from fewset.models.backbones.conv4 import Conv4
from fewset.models.backbones.features import FeatureInput
from fewset.models.heads.prototype import PrototypeHead
from fewset.models.layers.transform import FeatureTransform
from fewset.models.model import FewShotModel
from fewset.tasks.spec import TaskSpec
from fewset.training import loop
from fewset.training.batches import TrainingItems
from fewset.training.episodic import MetaTraining, TrainConfig
from fewset.training.feature_training import FeatureTraining
from fewset.training.optimiser import set_rate

PRETRAIN = {
    "name": "pre",
    "data": {"set": "tiny"},
    "model": {"backbone": "conv4", "backbone_options": {"input_size": 16, "dim": 8}},
    "pretrain": {"epochs": 2, "batch": 36, "validation_tasks": 11, "validation_query": 5},
    "evaluate": {"way": 3, "query": 3, "tasks": 23},
}
CHUNK = 2**11  # embedding values in a chunk of tasks, so that a few tasks are several chunks

Arrays = dict[str, np.ndarray]


class Exact(FewShotModel):
    """A model that computes in double precision."""

    def embed(self, images: Tensor) -> Tensor:
        return super().embed(images.double())


def trained(tasks: int, freeze: bool, steps: int) -> FewShotModel:
    """A FEAT after a few steps of so many tasks each, in double precision and without dropout."""
    torch.manual_seed(distributed.rank())  # the processes start from the weights of the first
    adapter = Attention(7, attention_dropout=0.0, dropout=0.0)
    model = Exact(Conv4(input_size=16, dim=7), adapter, PrototypeHead(7, temperature=3.0)).double()
    config = TrainConfig(
        way=3, shot=2, query=3, tasks_per_step=tasks, tasks_per_epoch=tasks, augment=("pad_crop", "flip"),
        balance=0.1, freeze_batchnorm=freeze, validation_query=3,
    )  # fmt: skip
    _steps(MetaTraining(model, TrainingItems.of(open_set("tiny")), config, seed=5), steps)
    return model


def trained_on_features(table: Path, tasks: int) -> FewShotModel:
    torch.manual_seed(0)
    adapter = Attention(5, attention_dropout=0.0, dropout=0.0)
    model = FewShotModel(FeatureInput(5), adapter, PrototypeHead(5, temperature=3.0))
    config = TrainConfig(
        way=3,
        shot=2,
        query=3,
        tasks_per_step=tasks,
        tasks_per_epoch=tasks,
        validation_way=3,
        validation_query=3,
    )
    _steps(FeatureTraining(model, open_features(table), config, seed=5), 3)
    return model


def _steps(stage: loop.Stage, count: int) -> None:
    distributed.broadcast_(stage.module.state_dict().values())
    set_rate(stage.optimiser, 1.0)
    for number in range(count):
        loop.train_step(stage, number)
    alike = distributed.all_gather([value.numpy().tobytes() for value in stage.module.state_dict().values()])
    assert all(one == alike[0] for one in alike), "the processes have not the same weights"


def weights(model: FewShotModel) -> np.ndarray:
    return torch.cat([value.reshape(-1) for value in model.parameters()]).detach().numpy()


def everything(run: Path, table: Path, tasks: int) -> tuple[Arrays, Arrays]:
    """Results that are the same to the bit, and results that are the same but for rounding errors."""
    exact: Arrays = {}
    cases = {
        "standard": {},
        "transductive": {"variant": "double-dagger"},
        "generalised": {"validation_tasks": 17},
        "cross-domain": {"support_domain": "even", "query_domain": "odd"},
    }
    for setting, options in cases.items():
        result, _ = evaluate_run(run, setting=setting, options=options, query=2, tasks=113)
        for name in ("", *result.scores):
            score = result.score_of(name)
            exact[f"{setting} {name}"] = np.array([score.mean, score.ci95])
            exact[f"{setting} {name} per task"] = np.load(run / "results" / score.per_task)
    torch.manual_seed(0)
    steps = FeatureTransform(5, ("l2",))
    model = FewShotModel(FeatureInput(5), Attention(5), PrototypeHead(5), feature_transform=steps)
    features = open_features(table)
    for shot in (1, 3):
        spec = TaskSpec(shot=shot, tasks=3)
        scores = evaluate_low_shot(model, features, spec)
        exact |= {f"low-shot {shot} {name}": score.per_task for name, score in scores.items()}
        exact[f"prior {shot}"] = np.array(choose_prior(model, features, spec))

    free = trained(tasks, freeze=False, steps=1).backbone.blocks[0][1]  # type: ignore[union-attr, index]
    close = {
        "weights": weights(trained(tasks, freeze=True, steps=3)),
        "weights on features": weights(trained_on_features(table, tasks)),
        "mean of BatchNorm": free.running_mean.numpy(),  # type: ignore[union-attr]
    }
    return exact, close


if __name__ == "__main__":
    evaluation._CHUNK_SIZE = CHUNK
    runs, table = (Path(word) for word in sys.argv[1:])
    with distributed.session():
        exact, close = everything(runs / "feat", table, tasks=distributed.world_size())
        if distributed.is_main_process():
            np.savez(runs / "exact.npz", **exact)
            np.savez(runs / "close.npz", **close)
        print(execute(parse_recipe(PRETRAIN), "pretrain", runs / "pre").mean)
