import json
from pathlib import Path

import pytest

from fewset.experiments.execute import execute
from tests.helpers.tiny_recipes import PRETRAIN, recipe

pytestmark = pytest.mark.usefixtures("tiny_set")


def test_pretraining_learns(tmp_path: Path) -> None:
    optimiser = {"lr": 3e-3, "other_lr_scale": 1.0, "schedule": "constant"}
    execute(
        recipe(PRETRAIN, epochs=8, augment=[], batch=13, optimiser=optimiser), "pretrain", tmp_path / "pre"
    )
    rows = [json.loads(line) for line in (tmp_path / "pre" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["loss"] < 0.5 * rows[0]["loss"]
    assert rows[-1]["accuracy"] > 0.8
