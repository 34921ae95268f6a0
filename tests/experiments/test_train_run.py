"""Whole runs on a tiny set: what they leave behind, and what they reject."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard

from fewset.core.errors import UserError
from fewset.data.images.store import ImageSet, set_path
from fewset.experiments import train_run
from fewset.experiments.recipes import read_recipe
from fewset.experiments.result import read_result
from fewset.experiments.train_run import execute, stage_for
from fewset.experiments.weights import load
from tests.helpers.tiny_recipes import FROZEN, JOINT, MODEL, PRETRAIN, TRAIN, recipe
from tests.helpers.tiny_set import spoiled_copy

pytestmark = pytest.mark.usefixtures("tiny_set")


@pytest.mark.parametrize(
    "table",
    [PRETRAIN, {**TRAIN, "train": {**TRAIN["train"], "auxiliary": 0.5}}, FROZEN, JOINT],
    ids=["pretrain", "train", "frozen", "joint"],
)
def test_training_leaves_the_random_state_alone(table: dict, runs: Path) -> None:
    before = torch.manual_seed(123).get_state()
    execute(recipe({**table, "name": "new"}, epochs=1), recipe(table).kind, runs / "new")
    assert torch.equal(torch.get_rng_state(), before)


def test_pretraining_of_no_epochs_is_the_other_one_at_its_own_size(runs: Path) -> None:
    options = {"input_size": 20, "dim": 8, "pool": "average"}
    larger = {**PRETRAIN, "name": "larger", "model": {**MODEL, "backbone_options": options}}
    execute(recipe(larger, init="pre", epochs=0), "pretrain", runs / "larger")
    model, first = load(runs / "larger"), load(runs / "pre")
    torch.testing.assert_close(model.backbone.state_dict(), first.backbone.state_dict(), rtol=0, atol=0)
    assert model.input_size == 20
    assert re.search(r"starts from .*pre\n", (runs / "larger" / "log.txt").read_text())
    with pytest.raises(UserError, match="epochs must be 1 or more"):
        recipe(larger, epochs=0)


def test_a_run_directory_holds_what_the_contract_names(runs: Path) -> None:
    returned = execute(recipe(TRAIN), "train", runs / "feat")
    names = {file.name for file in (runs / "feat").iterdir()}
    assert names >= {
        "recipe.toml", "model.safetensors", "metrics.jsonl", "result.json", "checkpoint", "log.txt",
        "environment.json", "per_task.npy",
    }  # fmt: skip
    assert returned == read_result(runs / "feat" / "result.json")
    result = json.loads((runs / "feat" / "result.json").read_text())
    assert result["method"] == "FEAT"
    assert set(result) >= {
        "setting", "data", "data_digest", "weights_digest", "split", "way", "shot", "query", "tasks", "seed",
        "commit", "versions", "seconds",
    }  # fmt: skip
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


@pytest.mark.parametrize("source", ["pre", "pre/model.safetensors"])
def test_a_run_that_reads_itself_is_not_started_again(source: str, runs: Path) -> None:
    before = {path: path.read_bytes() for path in (runs / "pre").rglob("*") if path.is_file()}
    with pytest.raises(UserError, match="pre would learn from itself; name the new run"):
        execute(recipe(PRETRAIN, init=str(runs / source)), "pretrain", runs / "pre", force=True)
    assert before == {path: path.read_bytes() for path in (runs / "pre").rglob("*") if path.is_file()}


def test_resuming_a_finished_run_does_nothing(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def written() -> dict[Path, int]:
        return {file: file.stat().st_mtime_ns for file in (runs / "pre").rglob("*")}

    before = written()
    for name in ("_train", "evaluate_run"):
        monkeypatch.setattr(
            train_run, name, lambda *_, **__: pytest.fail("a finished run needs none of this")
        )
    said: list[str] = []
    result = execute(recipe(PRETRAIN, epochs=1), "pretrain", runs / "pre", resume=True, echo=said.append)
    assert result == read_result(runs / "pre" / "result.json")
    assert written() == before
    assert said == []


def test_a_directory_that_is_not_a_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty and not a run"):
        execute(recipe(PRETRAIN), "pretrain", tmp_path, force=True)
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["precious.txt"]


# Feature transforms


def with_steps(table: dict, *steps: str, **changes: object) -> dict:
    return {**table, "model": {**table["model"], "feature_transform": list(steps), **changes}}


@pytest.mark.parametrize("table", [TRAIN, FROZEN], ids=["live", "frozen"])
def test_training_sees_transformed_embeddings(table: dict, runs: Path) -> None:
    stage = stage_for(recipe(with_steps(table, "power", "l2", "centre"), augment=[]), runs)
    tasks = np.arange(3 * 5).reshape(1, 3, 5)
    stage.model.eval()
    embedded = stage.embed_tasks(tasks, 0).detach()
    torch.testing.assert_close(
        (embedded + stage.model.feature_transform.mean).norm(dim=-1), torch.ones(1, 3, 5)
    )
    assert stage.validate().mean > 0


def test_a_set_that_is_replaced_while_it_is_read_is_noticed(
    tmp_path: Path, tiny_set: ImageSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replaced(*arguments: Any) -> None:
        fit(*arguments)
        shutil.rmtree(tiny_set.path)
        spoiled_copy(tiny_set, "tiny", np.arange(7))

    fit = train_run.fit
    monkeypatch.setattr(train_run, "fit", replaced)
    with pytest.raises(UserError, match=r"'tiny' is not the one .* replaced while the run was trained"):
        execute(recipe(PRETRAIN, epochs=1), "pretrain", tmp_path / "run")
    assert not (tmp_path / "run" / "result.json").exists()


def test_absolute_paths_are_not_kept(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = recipe(TRAIN, init=str(runs / "pre"))
    first = execute(plan, "train", runs / "new")
    assert execute(plan, "train", runs / "new", resume=True) == first
    for file in (runs / "new").rglob("*"):
        assert not file.is_file() or str(tmp_path).encode() not in file.read_bytes(), file


def test_a_run_is_resumed_from_another_directory(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths in its recipe are relative to the directory that the run is in."""
    images = set_path("tiny")
    train = recipe({**TRAIN, "data": {"set": str(images)}}, init=str(runs / "pre"))
    for name in ("here", "there/below"):
        (runs / name).mkdir(parents=True)
    monkeypatch.chdir(runs / "here")
    first = execute(train, "train", runs / "new")
    recorded = read_recipe(runs / "new" / "recipe.toml")
    assert recorded.init == "pre"
    assert (runs / recorded.data.set).samefile(images)
    monkeypatch.chdir(runs / "there" / "below")
    assert execute(train, "train", runs / "new", resume=True) == first
    (runs / "new" / "result.json").unlink()
    other_words = replace(train, train=replace(train.train, init="../../pre"))
    again = execute(other_words, "train", runs / "new", resume=True)
    assert again.weights_digest == first.weights_digest


def test_the_card_of_a_run_has_what_the_hub_reads(runs: Path) -> None:
    execute(recipe(TRAIN), "train", runs / "feat")
    card = ModelCard.load(runs / "feat" / "README.md")
    (found,), result = card.data.eval_results, read_result(runs / "feat" / "result.json")
    assert (card.data.library_name, found.dataset_name) == ("fewset", "tiny")
    assert found.metric_value == round(100 * result.mean, 2)
    assert f"{100 * result.mean:.2f} ± {100 * result.ci95:.2f} %" in card.text
    assert not card.data.to_dict().keys() - {
        "library_name",
        "pipeline_tag",
        "tags",
        "datasets",
        "model-index",
    }
