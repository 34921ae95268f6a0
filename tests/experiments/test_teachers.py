"""Teachers of a pre-training: which runs may be one."""

import shutil
from pathlib import Path

import pytest

from fewset.data.images.store import ImageSet
from fewset.experiments.execute import execute, stage_for
from fewset.runtime.errors import UserError
from tests.helpers.tiny_recipes import PRETRAIN, TRAIN, recipe


def test_a_run_without_its_classifier_is_refused(runs: Path) -> None:
    execute(recipe(TRAIN, epochs=1), "train", runs / "feat")
    with pytest.raises(UserError, match=r"feat is no pre-training run with a checkpoint"):
        stage_for(recipe(PRETRAIN, teachers=["feat"]), runs)
    shutil.rmtree(runs / "pre" / "checkpoint")
    with pytest.raises(UserError, match=r"pre is no pre-training run with a checkpoint"):
        stage_for(recipe(PRETRAIN, teachers=["pre"]), runs)
    with pytest.raises(UserError, match="no such run"):
        stage_for(recipe(PRETRAIN, teachers=["nobody"]), runs)


def test_other_classes_are_refused(runs: Path, tiny_set: ImageSet) -> None:
    one_domain = recipe({**PRETRAIN, "data": {"set": "tiny", "domain": "odd"}}, validation_query=2)
    assert tiny_set.domain_names == ("even", "odd")
    execute(one_domain, "pretrain", runs / "odd")
    with pytest.raises(UserError, match="trained on other classes than 'tiny'"):
        stage_for(recipe(PRETRAIN, teachers=["odd"]), runs)


def test_a_teacher_that_may_know_what_is_held_out_is_refused(runs: Path) -> None:
    held_out = recipe({**PRETRAIN, "data": {"set": "tiny", "hold_out": 0.2}}, teachers=["pre"])
    with pytest.raises(UserError, match="was not trained without the same ones"):
        stage_for(held_out, runs)


def test_a_run_with_another_teacher_than_it_began_with_is_not_resumed(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taught = recipe({**PRETRAIN, "name": "taught"}, teachers=["pre"])

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fewset.experiments.execute.fit", stop)
        with pytest.raises(KeyboardInterrupt):
            execute(taught, "pretrain", runs / "taught")
    shutil.rmtree(runs / "pre")
    execute(recipe(PRETRAIN, epochs=2), "pretrain", runs / "pre")
    with pytest.raises(UserError, match=r"'pre' is not the one that .*taught began with"):
        execute(taught, "pretrain", runs / "taught", resume=True)
