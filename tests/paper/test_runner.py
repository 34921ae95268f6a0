"""Which recipe a study's run has, what it is called, and what is made before it."""

from pathlib import Path

import pytest

from fewset.core.errors import UserError
from fewset.experiments.recipes import find_recipe, read_recipe
from fewset.paper.runner import StudyRunner
from fewset.paper.study import PlannedRun


def test_an_unchanged_run_is_the_recipe_itself(tmp_path: Path) -> None:
    runner = StudyRunner("strokes", tmp_path)
    plain = read_recipe(find_recipe("strokes/feat"))
    assert runner.recipe(PlannedRun("feat")) == plain
    assert runner.recipe(PlannedRun("feat", 1)) == plain
    assert runner.recipe(PlannedRun("feat", 1, "balance", (f"train.balance={plain.train.balance}",))) == plain


def test_a_change_gives_a_run_its_own_name(tmp_path: Path) -> None:
    runner = StudyRunner("strokes", tmp_path, ["train.epochs=2", "pretrain.epochs=3"])
    recipe = runner.recipe(PlannedRun("feat", 5, "heads-2", ("model.adapter_options.heads=2",)))
    assert recipe.name == "strokes-feat-5shot-heads-2"
    assert (recipe.train.shot, recipe.evaluate.shot, recipe.train.epochs) == (5, 5, 2)
    assert recipe.model.adapter_options == {"heads": 2}
    assert runner.recipe(PlannedRun("pretrain")).pretrain.epochs == 3
    untrained = read_recipe(find_recipe("strokes/simpleshot"))
    assert runner.recipe(PlannedRun("simpleshot", 1)) == untrained, "a baseline stays one"


def test_a_recipe_of_its_own_for_the_shots_is_taken(tmp_path: Path) -> None:
    runner = StudyRunner("miniimagenet/authors-conv4", tmp_path)
    for shot in (1, 5):
        shipped = read_recipe(find_recipe(f"miniimagenet/authors-conv4-feat-{shot}shot"))
        assert runner.recipe(PlannedRun("feat", shot)) == shipped
    assert runner.recipe(PlannedRun("pretrain")).name == "miniimagenet-authors-conv4-pretrain"


def test_a_change_of_the_data_is_made_in_the_pretraining_too(tmp_path: Path) -> None:
    runner = StudyRunner("strokes", tmp_path)
    run = PlannedRun("feat", 5, "held-out", ("data.hold_out=0.25",))
    assert runner.recipe(run).init == "strokes-pretrain-held-out"
    first = runner.recipe(runner.resolve(run).start)
    assert (first.name, first.data.hold_out) == ("strokes-pretrain-held-out", 0.25)
    assert runner.resolve(PlannedRun("feat")).start.tag == ""


def test_a_change_that_changes_nothing_needs_no_other_pretraining(tmp_path: Path) -> None:
    """The recipes of Sketchy are in one domain already."""
    runner = StudyRunner("sketchy", tmp_path)
    run = PlannedRun("feat", 1, "on-Sketch", ("data.domain=Sketch",))
    assert runner.recipe(run) == read_recipe(find_recipe("sketchy/feat"))
    for method, before in (("feat", "protonet"), ("protonet", "pretrain")):
        other = PlannedRun(method, 1, "on-Photo", ("data.domain=Photo",))
        assert runner.recipe(other).init == f"sketchy-{before}-on-Photo"


def test_an_unknown_set_or_key_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        StudyRunner("nowhere", tmp_path).recipe(PlannedRun("feat"))
    with pytest.raises(UserError, match="epochs=2"):
        StudyRunner("strokes", tmp_path, ["epochs=2"])
    with pytest.raises(UserError, match=r"unknown recipe key 'train\.epoch'"):
        StudyRunner("strokes", tmp_path, ["train.epoch=2"]).recipe(PlannedRun("feat"))


def test_recipes_of_the_users_own(tmp_path: Path) -> None:
    """`--on` may be a directory; what a recipe starts from is beside it, or comes with fewset."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "pretrain.toml").write_text('extends = "strokes/pretrain"\n[pretrain]\nepochs = 3')
    shots = "[variants.1shot]\n[variants.5shot.train]\nshot = 5"
    (mine / "feat.toml").write_text(f'extends = "strokes/feat"\ntrain.init = "pretrain"\n{shots}')
    runner = StudyRunner(str(mine), tmp_path / "runs")
    names = [runner.recipe(PlannedRun("feat", shot)).name for shot in (None, 1, 5)]
    assert names == ["feat-1shot", "feat-1shot", "feat-5shot"]
    first = runner.recipe(runner.resolve(PlannedRun("feat", 5)).start)
    assert (first.name, first.pretrain.epochs) == ("pretrain", 3)
    (mine / "pretrain.toml").unlink()
    with pytest.raises(UserError, match=r"neither such a run .* nor such a recipe"):
        StudyRunner(str(mine), tmp_path / "runs").make(PlannedRun("feat"))
    (mine / "feat.toml").write_text('extends = "strokes/feat"')
    later = StudyRunner(str(mine), tmp_path / "runs")
    assert later.recipe(later.resolve(PlannedRun("feat")).start).name == "strokes-pretrain"


def test_the_stages_of_a_pretraining_are_made_one_after_the_other(tmp_path: Path) -> None:
    runner = StudyRunner("miniimagenet/conv4", tmp_path)
    run, names = PlannedRun("protonet", 5), []
    while run := runner.resolve(run).start:
        names.append(Path(run.method).stem)
    stages = [f"conv4-pretrain-stage{number}" for number in (3, 2, 1)]
    assert names == ["conv4-protonet-1shot", "conv4-pretrain", *stages]
