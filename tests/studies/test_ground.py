"""Which recipe a study's run has, what it is called, and what is made before it."""

from pathlib import Path

import pytest

from fewset.errors import UserError
from fewset.recipes import find_recipe, read_recipe
from fewset.studies.ground import Ground
from fewset.studies.plan import Run


def test_an_unchanged_run_is_the_recipe_itself(tmp_path: Path) -> None:
    ground = Ground("strokes", tmp_path)
    plain = read_recipe(find_recipe("strokes/feat"))
    assert ground.recipe(Run("feat")) == plain
    assert ground.recipe(Run("feat", 1)) == plain
    assert ground.recipe(Run("feat", 1, "balance", (f"train.balance={plain.train.balance}",))) == plain


def test_a_change_gives_a_run_its_own_name(tmp_path: Path) -> None:
    ground = Ground("strokes", tmp_path, ["train.epochs=2", "pretrain.epochs=3"])
    recipe = ground.recipe(Run("feat", 5, "heads-2", ("model.adapter_options.heads=2",)))
    assert recipe.name == "strokes-feat-5shot-heads-2"
    assert (recipe.train.shot, recipe.evaluate.shot, recipe.train.epochs) == (5, 5, 2)
    assert recipe.model.adapter_options == {"heads": 2}
    assert ground.recipe(Run("pretrain")).pretrain.epochs == 3


def test_a_baseline_stays_untrained(tmp_path: Path) -> None:
    ground = Ground("strokes", tmp_path, ["train.epochs=2"])
    assert ground.recipe(Run("simpleshot", 1)) == read_recipe(find_recipe("strokes/simpleshot"))


def test_a_recipe_of_its_own_for_the_shots_is_taken(tmp_path: Path) -> None:
    ground = Ground("miniimagenet/authors-conv4", tmp_path)
    for shot in (1, 5):
        shipped = read_recipe(find_recipe(f"miniimagenet/authors-conv4-feat-{shot}shot"))
        assert ground.recipe(Run("feat", shot)) == shipped
    assert ground.recipe(Run("pretrain")).name == "miniimagenet-authors-conv4-pretrain"


def test_a_change_of_the_data_is_made_in_the_pretraining_too(tmp_path: Path) -> None:
    ground = Ground("strokes", tmp_path)
    run = Run("feat", 5, "held-out", ("data.hold_out=0.25",))
    assert ground.recipe(run).init == "strokes-pretrain-held-out"
    first = ground.recipe(ground._initial(run))
    assert (first.name, first.data.hold_out) == ("strokes-pretrain-held-out", 0.25)
    assert ground._initial(Run("feat")).tag == ""


def test_a_change_that_changes_nothing_needs_no_other_pretraining(tmp_path: Path) -> None:
    """The recipes of Sketchy are in one domain already."""
    ground = Ground("sketchy", tmp_path)
    run = Run("feat", 1, "on-Sketch", ("data.domain=Sketch",))
    assert ground.recipe(run) == read_recipe(find_recipe("sketchy/feat"))
    assert (
        ground.recipe(Run("feat", 1, "on-Photo", ("data.domain=Photo",))).init == "sketchy-pretrain-on-Photo"
    )


def test_an_unknown_set_or_method_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no recipe for 'feat' on 'nowhere'"):
        Ground("nowhere", tmp_path).recipe(Run("feat"))


def test_a_change_that_no_recipe_knows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--set epochs=2: a study takes"):
        Ground("strokes", tmp_path, ["epochs=2"])
    with pytest.raises(UserError, match=r"unknown recipe key 'train\.epoch'"):
        Ground("strokes", tmp_path, ["train.epoch=2"]).recipe(Run("feat"))


def test_recipes_of_the_users_own(tmp_path: Path) -> None:
    """`--on` may be a directory; what a recipe starts from is looked up beside it."""
    mine = tmp_path / "mine"
    mine.mkdir()
    for name in ("pretrain", "feat"):
        (mine / f"{name}.toml").write_text(find_recipe(f"strokes/{name}").read_text())
    ground = Ground(str(mine), tmp_path / "runs")
    assert ground.recipe(Run("feat")).name == "strokes-feat"
    assert ground.recipe(ground._initial(Run("feat"))).name == "strokes-pretrain"
    (mine / "pretrain.toml").unlink()
    with pytest.raises(UserError, match=r"neither such a run .* nor such a recipe"):
        ground._initial(Run("feat"))
