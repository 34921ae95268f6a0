"""Whole runs on a tiny set: what they leave behind, and that a stop at any moment changes nothing."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from fewset.data.images.store import ImageSet
from fewset.experiments.config import Recipe
from fewset.experiments.execute import execute, stage_for
from fewset.experiments.recipes import parse_recipe
from fewset.experiments.run_directory import RunDirectory
from fewset.experiments.weights import load
from fewset.runtime.errors import UserError
from fewset.training import frozen, loop

pytestmark = pytest.mark.usefixtures("tiny_set", "tiny_table")

MODEL = {"backbone": "conv4", "backbone_options": {"input_size": 16, "dim": 8}}
TASKS = {"way": 3, "shot": 2, "query": 3, "tasks": 23}
PRETRAIN = {
    "name": "pre",
    "data": {"set": "tiny"},
    "model": MODEL,
    "pretrain": {"epochs": 3, "batch": 37, "validation_tasks": 11, "validation_query": 5},
    "evaluate": TASKS,
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
        "backbone": "features", "backbone_options": {"transform": "cl2n"}, "adapter": "attention",
        "head_options": {"temperature": 0.5},
    },
    "train": {
        "way": 3, "shot": 2, "query": 3, "epochs": 3, "tasks_per_epoch": 5, "balance": 0.1,
        "validation_tasks": 11, "validation_way": 3, "validation_query": 3,
    },
    "evaluate": {"shot": 2, "tasks": 3},
}  # fmt: skip


def recipe(table: dict, **changes: object) -> Recipe:
    stage = "pretrain" if "pretrain" in table else "train"
    return parse_recipe({**table, stage: {**table[stage], **changes}})


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A directory of runs with the pre-trained one in it."""
    execute(recipe(PRETRAIN, epochs=1), "pretrain", tmp_path / "runs" / "pre")
    return tmp_path / "runs"


def test_pretraining_starts_from_another_at_a_smaller_size(runs: Path) -> None:
    larger = {
        **PRETRAIN,
        "name": "larger",
        "model": {**MODEL, "backbone_options": {"input_size": 20, "dim": 8}},
    }
    stage = stage_for(recipe(larger, init="pre"), runs)
    first = load(runs / "pre").backbone.state_dict()
    assert all(torch.equal(value, first[name]) for name, value in stage.model.backbone.state_dict().items())
    assert stage.model.input_size == 20
    with pytest.raises(UserError, match="init is 'absent'"):
        stage_for(recipe(larger, init="absent"), runs)


def test_pretraining_of_no_epochs_is_the_other_one_at_its_own_size(runs: Path) -> None:
    options = {"input_size": 20, "dim": 8, "pool": "average"}
    larger = {**PRETRAIN, "name": "larger", "model": {**MODEL, "backbone_options": options}}
    execute(recipe(larger, init="pre", epochs=0), "pretrain", runs / "larger")
    model, first = load(runs / "larger"), load(runs / "pre")
    torch.testing.assert_close(model.backbone.state_dict(), first.backbone.state_dict(), rtol=0, atol=0)
    assert model.input_size == 20
    said = "pre, with another backbone: (pool): GlobalMaximum() there, (pool): GlobalAverage() here"
    assert said in (runs / "larger" / "log.txt").read_text()
    with pytest.raises(UserError, match="epochs must be 1 or more"):
        recipe(larger, epochs=0)


def test_a_run_directory_holds_what_the_contract_names(runs: Path) -> None:
    result = execute(recipe(TRAIN), "train", runs / "feat")
    names = {file.name for file in (runs / "feat").iterdir()}
    assert names >= {
        "recipe.toml", "model.safetensors", "metrics.jsonl", "result.json", "checkpoint", "log.txt",
        "environment.json", "per_task.npy",
    }  # fmt: skip
    assert result == json.loads((runs / "feat" / "result.json").read_text())
    assert result["method"] == "FEAT"
    for key in (
        "setting",
        "data",
        "split",
        "way",
        "shot",
        "query",
        "tasks",
        "seed",
        "commit",
        "versions",
        "seconds",
    ):
        assert key in result
    per_task = np.load(runs / "feat" / result["per_task"])
    assert per_task.shape == (23,)
    assert result["mean"] == pytest.approx(per_task.mean())
    rows = [json.loads(line) for line in (runs / "feat" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [5, 10, 15]
    assert max(row["val_accuracy"] for row in rows) == max(row["val_accuracy"] for row in rows if row["best"])
    with np.load(runs / "feat" / result["examples"]) as examples:
        assert examples["before"].shape == examples["after"].shape == (4, 3, 8)
        gains = examples["accuracy_after"] - examples["accuracy_before"]
        assert gains[0] == max(gains)
        assert gains[-1] == min(gains)


def test_pretraining_learns(tmp_path: Path) -> None:
    optimiser = {"lr": 3e-3, "other_lr_scale": 1.0, "schedule": "constant"}
    execute(
        recipe(PRETRAIN, epochs=8, augment=[], batch=13, optimiser=optimiser), "pretrain", tmp_path / "pre"
    )
    rows = [json.loads(line) for line in (tmp_path / "pre" / "metrics.jsonl").read_text().splitlines()]
    assert rows[-1]["loss"] < 0.5 * rows[0]["loss"]
    assert rows[-1]["accuracy"] > 0.8


FROZEN = {**TRAIN, "train": {**TRAIN["train"], "freeze_backbone": True, "augment": []}}


PARTLY = {**TRAIN, "train": {**TRAIN["train"], "frozen_blocks": 2, "augment": []}}


def test_a_frozen_backbone_stays_as_it_is(runs: Path) -> None:
    execute(recipe(FROZEN), "train", runs / "frozen")
    first, trained = load(runs / "pre"), load(runs / "frozen")
    for name, value in trained.backbone.state_dict().items():
        assert torch.equal(value, first.backbone.state_dict()[name])
    fresh = stage_for(recipe(FROZEN), runs).model.adapter.state_dict()
    assert any(not torch.equal(value, fresh[name]) for name, value in trained.adapter.state_dict().items())
    stage_for(recipe(TRAIN, init="frozen"), runs)  # a start for the whole model


@pytest.mark.parametrize("augment", [[], ["flip"]])
def test_a_frozen_step_is_that_of_the_images_in_evaluation_mode(augment: list[str], runs: Path) -> None:
    """The same tasks, the same images flipped, each through the backbone with its running statistics."""
    tasks = {"augment": augment, "tasks_per_step": 5}
    frozen = stage_for(recipe(FROZEN, **tasks), runs)
    whole = stage_for(recipe(TRAIN, **tasks, freeze_batchnorm=True), runs)
    for stage in (frozen, whole):
        stage.module.eval()  # no dropout
    for number in range(3):
        for one, other in zip(frozen.step(number), whole.step(number), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(frozen.validate().mean, whole.validate().mean, rtol=0, atol=0.02)


def test_frozen_blocks_stay_as_they_are_and_the_others_learn(runs: Path) -> None:
    execute(recipe(PARTLY), "train", runs / "partly")
    first, trained = load(runs / "pre"), load(runs / "partly")
    for name, value in trained.backbone.state_dict().items():
        frozen = name.startswith(("blocks.0.", "blocks.1."))
        assert torch.equal(value, first.backbone.state_dict()[name]) == frozen, name


@pytest.mark.parametrize("table", [FROZEN, PARTLY])
def test_runs_on_the_same_frozen_part_share_what_it_makes(table: dict, runs: Path) -> None:
    one, other = (stage_for(recipe(table, shot=shot), runs) for shot in (1, 2))
    assert one.table is other.table
    assert one.validation_tables[0] is other.validation_tables[0]
    execute(recipe(TRAIN), "train", runs / "trained")
    elsewhere = stage_for(recipe(table, init="trained"), runs)
    assert not np.array_equal(one.table, elsewhere.table)


def test_the_blocks_that_learn_may_keep_their_statistics(runs: Path) -> None:
    execute(recipe(PARTLY, freeze_batchnorm=True), "train", runs / "partly")
    first, trained = load(runs / "pre"), load(runs / "partly")
    kept = {
        name
        for name, value in trained.backbone.state_dict().items()
        if torch.equal(value, first.backbone.state_dict()[name])
    }
    assert {name for name in first.backbone.state_dict() if "running" in name} < kept
    assert not any(name.startswith("blocks.3.") and name.endswith("weight") for name in kept)


@pytest.mark.parametrize("changes", [{}, {"augment": ["flip"]}, {"rotation_classes": 0.6}])
def test_a_step_on_frozen_blocks_is_that_of_the_images_in_evaluation_mode(changes: dict, runs: Path) -> None:
    """Half precision in between."""
    partly = stage_for(recipe(PARTLY, **changes), runs)
    whole = stage_for(recipe(TRAIN, **{"augment": [], **changes}, freeze_batchnorm=True), runs)
    for stage in (partly, whole):
        stage.module.eval()
    for number in range(3):
        steps = partly.step(number), whole.step(number)
        torch.testing.assert_close(steps[0].loss, steps[1].loss, rtol=1e-2, atol=1e-3)
        for step in steps:
            step.loss.backward()
    for (name, mine), theirs in zip(partly.model.named_parameters(), whole.model.parameters(), strict=True):
        if name.startswith(("backbone.blocks.0.", "backbone.blocks.1.")):
            assert mine.grad is None
        else:
            torch.testing.assert_close(
                mine.grad, theirs.grad, rtol=0.05, atol=0.02 * float(theirs.grad.abs().max())
            )
    torch.testing.assert_close(partly.validate().mean, whole.validate().mean, rtol=0, atol=0.02)


@pytest.mark.parametrize("table", [TRAIN, FROZEN, PARTLY])
def test_rotation_classes_are_other_classes(table: dict, runs: Path) -> None:
    losses = []
    for share in (0.0, 1.0):
        stage = stage_for(recipe(table, rotation_classes=share), runs)
        stage.module.eval()
        losses.append(stage.step(0).loss.item())
    assert losses[0] != losses[1]


def test_what_frozen_blocks_make_can_be_kept(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For other processes: this one forgets what it had."""
    monkeypatch.setenv("FEWSET_TABLES", str(runs / "tables"))
    monkeypatch.setattr(frozen, "_tables", {})
    first = stage_for(recipe(PARTLY), runs)
    assert len(list((runs / "tables").iterdir())) == 2  # of the train and of the val split
    monkeypatch.setattr(frozen, "_tables", {})
    monkeypatch.setattr(frozen, "_fill", None)
    again = stage_for(recipe(PARTLY), runs)
    assert np.array_equal(first.table, again.table)
    monkeypatch.setattr(frozen, "_tables", {})
    with pytest.raises(TypeError):
        stage_for(recipe(PARTLY, augment=["flip"]), runs)  # flipped ones are not there


@pytest.mark.parametrize("table", [FROZEN, PARTLY])
def test_a_mirror_model_is_validated_as_it_will_be_scored(table: dict, runs: Path) -> None:
    model = {"model": {**TRAIN["model"], "test_time_flip": True}}
    tasks = {"validation_tasks": 200}
    plain = stage_for(recipe(table, **tasks), runs).validate()
    frozen, whole = (stage_for(recipe({**one, **model}, **tasks), runs).validate() for one in (table, TRAIN))
    assert not np.array_equal(plain.per_task, whole.per_task)
    np.testing.assert_allclose(frozen.per_task, whole.per_task, atol=0.35)  # half precision in between
    assert np.mean(frozen.per_task == whole.per_task) > 0.9 > np.mean(plain.per_task == whole.per_task)


def test_what_a_frozen_backbone_cannot_have_is_refused(runs: Path) -> None:
    for changes in ({"augment": ["flip", "pad_crop"]}, {"precision": "bfloat16"}):
        for table in (FROZEN, PARTLY):
            with pytest.raises(UserError, match="each image once"):
                recipe(table, **changes)
    with pytest.raises(UserError, match="freezes BatchNorm too"):
        recipe(FROZEN, freeze_batchnorm=True)
    with pytest.raises(UserError, match="0 with freeze_backbone"):
        recipe(FROZEN, frozen_blocks=1)
    with pytest.raises(UserError, match="expected 1 to 3"):
        stage_for(recipe(PARTLY, frozen_blocks=4), runs)
    resnet = {"backbone": "resnet12", "backbone_options": {"input_size": 16}}
    with pytest.raises(UserError, match="does not say what its blocks are"):
        stage_for(recipe({**PARTLY, "model": resnet}, init=""), runs)
    with pytest.raises(UserError, match="nothing to train but its backbone"):
        stage_for(recipe({**FROZEN, "model": MODEL}), runs)


@pytest.mark.parametrize(
    "table",
    [PRETRAIN, TRAIN, FEATURES, FROZEN, PARTLY],
    ids=["pretrain", "train", "features", "frozen", "partly frozen"],
)
def test_a_stop_at_any_step_changes_nothing(table: dict, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped after every single step, between the checkpoint and the rest, and resumed each time."""
    kind = "pretrain" if "pretrain" in table else "train"
    execute(recipe(table), kind, runs / "whole")
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    save = RunDirectory.save_checkpoint

    def save_and_stop(self: RunDirectory, state: dict) -> None:
        save(self, state)
        raise KeyboardInterrupt

    stops = 0
    while True:
        monkeypatch.setattr(RunDirectory, "save_checkpoint", save_and_stop)
        try:
            execute(recipe(table), kind, runs / "stopped", resume=True)
            break
        except KeyboardInterrupt:
            stops += 1
            torch.manual_seed(stops)  # whatever the process did in between
    assert stops >= 9
    for name in ("model.safetensors", "per_task.npy", "recipe.toml"):
        assert (runs / "whole" / name).read_bytes() == (runs / "stopped" / name).read_bytes()
    whole, stopped = (
        [
            {**json.loads(line), "seconds": 0}
            for line in (runs / name / "metrics.jsonl").read_text().splitlines()
        ]
        for name in ("whole", "stopped")
    )
    assert whole == stopped


@pytest.mark.slow
def test_sigkill_five_times_at_random_moments_changes_nothing(runs: Path, tmp_path: Path) -> None:
    from fewset.experiments.recipes import recipe_text

    file = tmp_path / "feat.toml"
    file.write_text(recipe_text(recipe(TRAIN, epochs=12, tasks_per_epoch=25)))
    program = (
        "import fewset.training.loop as loop\n"
        "loop.CHECKPOINT_SECONDS = 0.05\n"
        "from fewset.cli.app import main\n"
        "main()"
    )

    def start(name: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", program, "train", str(file), "--out", str(runs / name), "--resume"]
        return subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"})

    assert start("whole").wait() == 0
    moments = random.Random(0)
    for _ in range(5):
        process = start("killed")
        while not (runs / "killed" / "checkpoint" / "last.pt").exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(moments.uniform(0.0, 3.5))  # 2 s or so of it are the start of the process
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert start("killed").wait() == 0
    first, second = ((runs / name / "model.safetensors").read_bytes() for name in ("whole", "killed"))
    assert first == second


def test_a_finished_run_is_not_overwritten(runs: Path) -> None:
    weights = runs / "pre" / "model.safetensors"
    before = weights.read_bytes(), weights.stat().st_mtime_ns
    with pytest.raises(UserError, match="a run that is finished: --force"):
        execute(recipe(PRETRAIN, epochs=1), "pretrain", runs / "pre")
    execute(recipe(PRETRAIN, epochs=1), "pretrain", runs / "pre", resume=True)
    assert (weights.read_bytes(), weights.stat().st_mtime_ns) == before
    (runs / "pre" / "notes.txt").write_text("mine")
    execute(recipe(PRETRAIN, epochs=1, batch=41), "pretrain", runs / "pre", force=True)
    assert weights.read_bytes() != before[0]
    assert (runs / "pre" / "notes.txt").read_text() == "mine"


def test_a_directory_that_is_not_a_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty and not a run"):
        execute(recipe(PRETRAIN), "pretrain", tmp_path, force=True)
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["precious.txt"]


def test_resuming_with_another_recipe_is_refused(runs: Path) -> None:
    (runs / "pre" / "result.json").unlink()
    with pytest.raises(UserError, match="the recipe differs"):
        execute(recipe(PRETRAIN, epochs=7), "pretrain", runs / "pre", resume=True)


def test_the_wrong_command_for_a_recipe_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="use `fewset pretrain`"):
        execute(recipe(PRETRAIN), "train", tmp_path / "run")


def test_missing_initial_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"init is 'pre'"):
        execute(recipe(TRAIN), "train", tmp_path / "feat")
    assert not (tmp_path / "feat").exists()


def test_frozen_batchnorm_keeps_its_statistics(runs: Path) -> None:
    def statistics(run: Path) -> list[torch.Tensor]:
        return [value for name, value in load(run).state_dict().items() if "running_" in name]

    start = statistics(runs / "pre")
    execute(recipe(TRAIN, epochs=1, freeze_batchnorm=True), "train", runs / "frozen")
    execute(recipe(TRAIN, epochs=1), "train", runs / "free")
    assert all(torch.equal(a, b) for a, b in zip(start, statistics(runs / "frozen"), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(start, statistics(runs / "free"), strict=True))


def test_training_in_one_domain_uses_only_its_items(runs: Path, tiny_set: ImageSet) -> None:
    table = {**TRAIN, "data": {"set": "tiny", "domain": "odd"}}
    result = execute(recipe(table, epochs=1, query=2), "train", runs / "odd")
    assert result["domain"] == "odd"
    odd = tiny_set.select("test", "odd")
    assert (odd.rows % 2 == 1).all()
