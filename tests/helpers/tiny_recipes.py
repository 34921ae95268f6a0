"""Recipes on the sets "tiny" and "tiny-features" that take a second."""

from fewset.experiments.config import Recipe
from fewset.experiments.recipes import parse_recipe

MODEL = {"backbone": "conv4", "backbone_options": {"input_size": 16, "dim": 8}}
TASKS = {"way": 3, "shot": 2, "query": 3, "tasks": 23}
PRETRAIN = {
    "name": "pre",
    "data": {"set": "tiny"},
    "model": MODEL,
    "pretrain": {"epochs": 3, "batch": 37, "validation_tasks": 11, "validation_query": 5},
    "evaluate": TASKS,
}
AVERAGED = {
    **PRETRAIN,
    "name": "averaged",
    "pretrain": {**PRETRAIN["pretrain"], "label_smoothing": 0.1, "average": 0.8},
}
TRAIN = {
    "name": "feat",
    "method": "FEAT",
    "data": {"set": "tiny"},
    "model": {**MODEL, "adapter": "attention", "head_options": {"temperature": 8.0}},
    "train": {
        "init": "pre", "way": 3, "shot": 2, "query": 3, "epochs": 3, "tasks_per_epoch": 5, "balance": 0.1,
        "augment": ["pad_crop", "flip"], "validation_tasks": 11, "validation_way": 3, "validation_query": 3,
    },
    "evaluate": TASKS,
}  # fmt: skip
FEATURES = {
    "name": "features",
    "data": {"set": "tiny-features"},
    "model": {
        "backbone": "features", "feature_transform": ["centre", "l2"], "adapter": "attention",
        "head_options": {"temperature": 0.5},
    },
    "train": {
        "way": 3, "shot": 2, "query": 3, "epochs": 3, "tasks_per_epoch": 5, "balance": 0.1,
        "validation_tasks": 11, "validation_way": 3, "validation_query": 3,
    },
    "evaluate": {"shot": 2, "tasks": 3},
}  # fmt: skip
FROZEN = {**TRAIN, "train": {**TRAIN["train"], "freeze_backbone": True, "augment": []}}
PARTLY = {**TRAIN, "train": {**TRAIN["train"], "frozen_blocks": 2, "augment": []}}
JOINT = {
    **TRAIN,
    "name": "joint",
    "train": {
        **TRAIN["train"], "init": "", "augment": ["crop", "flip"], "tasks_per_step": 1,
        "joint": {"batch": 13, "task_weight": 0.3, "splits": 4},
    },
}  # fmt: skip
GATED = {**FROZEN, "model": {**TRAIN["model"], "gate": True}}


def recipe(table: dict, **changes: object) -> Recipe:
    """The recipe of a table, with changes to its stage."""
    stage = "pretrain" if "pretrain" in table else "train"
    return parse_recipe({**table, stage: {**table[stage], **changes}})
