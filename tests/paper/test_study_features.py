"""The table of features that the low-shot study makes: bound to the weights and images behind it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fewset.core.errors import UserError
from fewset.data.features.importer import import_features
from fewset.data.features.table import FeatureTable, list_features, open_features, table_path
from fewset.data.images.store import ImageSet, open_set, set_path, write_store
from fewset.evaluation.embedding import embed_images
from fewset.experiments import embed_set as embedding
from fewset.experiments.embed_set import embed_set
from fewset.experiments.run_directory import ENVIRONMENT
from fewset.experiments.weights import load, load_weights, save_weights
from fewset.io.files import file_digest
from fewset.paper.catalogue import STUDIES
from fewset.paper.runner import StudyRunner, run_study
from fewset.paper.study import PlannedRun, Study
from tests.helpers.command_line import PRETRAIN, TRAIN, succeed

SMALL = list(dict.fromkeys([*PRETRAIN, *TRAIN, "train.validation_query=3"]))
NAME = "strokes-pretrain"


@pytest.fixture
def runner(tmp_path: Path, tiny_set: ImageSet) -> StudyRunner:  # noqa: ARG001
    """With a pre-trained run."""
    made = StudyRunner("strokes", tmp_path / "runs", SMALL)
    made.make(PlannedRun("pretrain"))
    return made


def make_table(runner: StudyRunner) -> FeatureTable:
    STUDIES["low-shot"](runner).prepare()
    return open_features(NAME)


def run_low_shot(runner: StudyRunner, file: Path) -> Study:
    """The study, for shots that the tiny set has."""
    plan = STUDIES["low-shot"](runner)
    numbers = tuple(number for number in plan.numbers if number.tasks["shot"] < 5)
    return run_study("low-shot", replace(plan, numbers=numbers), runner, file)


def retrain(run: Path) -> None:
    """Other weights, as another training would give."""
    model, config = load_weights(run / "model.safetensors")
    with torch.no_grad():
        for parameter in model.backbone.parameters():
            parameter.mul_(1.5)
    save_weights(model, config, run / "model.safetensors")


def assert_of_the_run(table: FeatureTable, run: Path) -> None:
    """The features are those of the run's weights now, on the set as it is now."""
    images = open_set("tiny")
    rows = np.concatenate([images.select(split).rows for split in ("train", "test")])
    expected = embed_images(load(run), images.images, rows).numpy()
    np.testing.assert_allclose(table.read(np.arange(len(rows))), expected, rtol=1e-5, atol=1e-6)
    assert table.manifest["made_from"] == {
        "weights_digest": file_digest(run / "model.safetensors"),
        "images_digest": images.digest,
    }


def test_the_table_is_that_of_embed_and_import(runner: StudyRunner, tmp_path: Path) -> None:
    table, run = make_table(runner), tmp_path / "runs" / NAME
    assert_of_the_run(table, run)
    embed_set(run, tmp_path / "file.npz")
    same = import_features(tmp_path / "file.npz")
    assert (same.digest, same.manifest["made_from"]) == (table.digest, table.manifest["made_from"])
    assert {file.name for file in (tmp_path / "runs").iterdir()} == {NAME}
    shown = succeed("data", "info", NAME)
    assert table.manifest["made_from"]["weights_digest"] in shown
    assert make_table(runner).manifest == table.manifest  # not made again


def test_a_study_that_was_stopped_goes_on(
    runner: StudyRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "_ROWS", 31)
    calls = []

    def stopping(*words: object, **options: object) -> object:
        calls.append(words)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return embed_images(*words, **options)

    monkeypatch.setattr(embedding, "embed_images", stopping)
    with pytest.raises(KeyboardInterrupt):
        make_table(runner)
    assert list_features() == []
    (tmp_path / "runs" / f"{NAME}.npz").write_text("what a study of an earlier version has left")
    assert_of_the_run(make_table(runner), tmp_path / "runs" / NAME)


def test_other_weights_make_another_table_and_other_numbers(runner: StudyRunner, tmp_path: Path) -> None:
    run, file = tmp_path / "runs" / NAME, tmp_path / "low-shot.json"
    old = run_low_shot(runner, file)
    table = open_features(NAME)
    retrain(run)
    new = run_low_shot(runner, file)
    again = open_features(NAME)
    assert_of_the_run(again, run)
    assert again.digest != table.digest
    assert {number.result.data_digest for number in old.numbers} == {table.digest}
    assert {number.result.data_digest for number in new.numbers} == {again.digest}
    for before, after in zip(old.numbers, new.numbers, strict=True):
        if before.row == "FEAT":  # trained anew on the new table, not only scored on it
            assert before.result.weights_digest != after.result.weights_digest


def other_images(tiny_set: ImageSet) -> None:
    pixels = 255 - tiny_set.images
    with write_store(
        set_path("tiny"),
        size=20,
        labels=tiny_set.labels,
        class_names=tiny_set.class_names,
        splits=tiny_set.splits,
        source="made by a test",
    ) as draft:
        draft.images[:] = pixels


def test_other_images_make_another_table(runner: StudyRunner, tmp_path: Path) -> None:
    make_table(runner)
    other_images(open_set("tiny"))
    run = tmp_path / "runs" / NAME
    later = StudyRunner("strokes", tmp_path / "runs", SMALL)
    with pytest.raises(UserError, match=rf"'tiny' is not the one that {run} began with; remove"):
        make_table(later)
    (run / ENVIRONMENT).unlink()  # a released model does not say what it was trained on
    assert_of_the_run(make_table(later), run)


def damage(table: Path) -> None:
    (table / "features.npy").write_bytes(b"")


def rename_classes(table: Path) -> None:
    manifest = table / "manifest.json"
    manifest.write_text(manifest.read_text().replace("class00", "classXX"))


@pytest.mark.parametrize("change", [damage, rename_classes])
def test_a_damaged_table_is_made_again(
    change: Callable[[Path], None], runner: StudyRunner, tmp_path: Path
) -> None:
    make_table(runner)
    change(table_path(NAME))
    assert_of_the_run(make_table(runner), tmp_path / "runs" / NAME)


def test_a_table_of_the_users_own_is_never_replaced(runner: StudyRunner, tmp_path: Path) -> None:
    labels = np.arange(11).repeat(5)
    np.savez(
        tmp_path / f"{NAME}.npz",
        features=np.eye(11)[labels],
        labels=labels,
        class_split=np.array(["seen", "unseen"])[np.arange(11) % 2],
    )
    mine = import_features(tmp_path / f"{NAME}.npz")
    with pytest.raises(UserError, match=rf"{NAME}.* came from .*{NAME}\.npz.*--features {NAME}"):
        make_table(runner)
    assert open_features(NAME).digest == mine.digest
