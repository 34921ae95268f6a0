"""The gate that meta-training chooses."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from fewset.experiments.train_run import execute
from fewset.experiments.weights import load, load_weights, save_weights
from fewset.tasks.scores import Score
from fewset.training.episodic import GATES, score_with_best_gate
from tests.helpers.pixel_model import pixel_model
from tests.helpers.tiny_recipes import FROZEN, GATED, PARTLY, TRAIN, recipe

GATE = {"model": {**TRAIN["model"], "gate": True}}


@pytest.mark.parametrize(
    ("means", "chosen"),
    [
        ((0.5, 0.6, 0.7, 0.6, 0.5), 0.5),
        ((0.5, 0.4, 0.4, 0.4, 0.4), 0.0),
        ((0.5, 0.5, 0.5, 0.5, 0.5), 1.0),
        ((0.1, 0.7, 0.2, 0.7, 0.1), 0.75),
    ],
    ids=["between", "none", "all equal", "two equal"],
)
def test_the_best_gate_is_kept(means: tuple[float, ...], chosen: float) -> None:
    model = pixel_model("attention")
    model.register_buffer("gate", torch.ones(()))
    score = score_with_best_gate(
        model, lambda: Score.of(np.full(3, dict(zip(GATES, means, strict=True))[model.gate.item()]))
    )
    assert model.gate == chosen
    assert score.mean == pytest.approx(max(means))


def test_a_model_without_a_gate_is_scored_once() -> None:
    calls = []
    score_with_best_gate(pixel_model("attention"), lambda: calls.append(1) or Score.of(np.ones(2)))
    assert calls == [1]


@pytest.mark.parametrize("table", [TRAIN, FROZEN, PARTLY], ids=["whole", "frozen", "partly frozen"])
def test_a_gate_changes_nothing_in_what_is_learned(table: dict, runs: Path) -> None:
    execute(recipe(table, epochs=1), "train", runs / "plain")
    execute(recipe({**table, **GATE}, epochs=1), "train", runs / "gated")
    plain, gated = (load(runs / name).state_dict() for name in ("plain", "gated"))
    assert gated.pop("gate") in GATES
    assert plain.keys() == gated.keys()
    assert all(torch.equal(value, gated[name]) for name, value in plain.items())


def test_an_adapter_that_harms_is_switched_off(runs: Path) -> None:
    """Weights that stay as they are, whose adapter turns every prototype round."""
    execute(recipe(TRAIN, epochs=0), "train", runs / "turned")
    model, config = load_weights(runs / "turned" / "model.safetensors")
    with torch.no_grad():
        model.adapter.layers[0].norm.weight.fill_(-20.0)
    save_weights(model, config, runs / "turned" / "model.safetensors")
    ungated = execute(recipe(TRAIN, epochs=0, init="turned"), "train", runs / "ungated")
    gated = execute(recipe({**TRAIN, **GATE}, epochs=0, init="turned"), "train", runs / "gated")
    assert load(runs / "gated").gate == 0.0
    assert ungated.before is not None
    assert gated.before is not None
    assert ungated.mean < 0.9 * ungated.before.mean
    assert gated.mean == gated.before.mean == ungated.before.mean


def test_a_gate_is_ahead_or_level_after_every_epoch(runs: Path) -> None:
    """The same weights in every epoch, scored on the same tasks, with the best gate and with all of it."""
    plain = {**GATED, "model": TRAIN["model"]}
    accuracies = []
    for name, table in (("plain", plain), ("gated", GATED)):
        execute(recipe(table), "train", runs / name)
        lines = (runs / name / "metrics.jsonl").read_text().splitlines()
        accuracies.append([json.loads(line)["val_accuracy"] for line in lines])
    assert all(gated >= whole for whole, gated in zip(*accuracies, strict=True))
    assert accuracies[0] != accuracies[1]
