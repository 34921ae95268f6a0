"""A study from nothing to its tables, on a tiny set: what it makes, what it takes, where it goes on."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fewset.core.errors import UserError
from fewset.data.images.store import ImageSet, open_set
from fewset.experiments.score_run import evaluate_run
from fewset.experiments.weights import load_weights, save_weights
from fewset.io.files import file_digest
from fewset.paper import runner as study_runner
from fewset.paper.ablations import ABLATIONS
from fewset.paper.catalogue import STUDIES
from fewset.paper.runner import StudyRunner, run_study
from fewset.paper.study import PlannedNumber, PlannedRun, Study, StudyPlan, read_study, write_study
from fewset.tasks.scores import SET_ADDS
from tests.helpers.command_line import PRETRAIN, TRAIN, fail, options, succeed
from tests.helpers.tiny_set import make_tiny_set

SMALL = list(dict.fromkeys([*PRETRAIN, *TRAIN]))
TWO = StudyPlan(
    "Numbers of one run",
    (
        PlannedNumber("before", "all", PlannedRun("feat"), score="before"),
        PlannedNumber("after", "all", PlannedRun("feat")),
        PlannedNumber("after", "the set adds", PlannedRun("feat"), score=SET_ADDS),
        PlannedNumber("after", "wider", PlannedRun("feat"), tasks={"way": 5}),
    ),
)


@pytest.fixture(scope="module")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the study TWO and its runs are made, once."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEWSET_HOME", str(folder / "home"))
        make_tiny_set()
        run_study("two", TWO, StudyRunner("strokes", folder / "runs", SMALL), folder / "two.json")
    return folder


@pytest.fixture
def made(_made: Path, tmp_path: Path, tiny_set: ImageSet) -> Path:  # noqa: ARG001
    """A copy of the study TWO and its runs, for a test to change."""
    shutil.copytree(_made / "runs", tmp_path / "runs")
    shutil.copy(_made / "two.json", tmp_path)
    return tmp_path


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """What was scored, in order."""
    calls: list[dict] = []

    def counting(run: Path, **options: object) -> dict:
        calls.append({"run": run.name, **options})
        return evaluate_run(run, **options)

    monkeypatch.setattr(study_runner, "evaluate_run", counting)
    return calls


def run_two(made: Path, *overrides: str, **options: Any) -> Study:
    """Make the study TWO again."""
    runner = StudyRunner("strokes", made / "runs", [*SMALL, *overrides], **options)
    return run_study("two", TWO, runner, made / "two.json")


def test_a_number_is_that_of_the_runs_result_file(made: Path) -> None:
    study = read_study(made / "two.json")
    result = json.loads((made / "runs" / "strokes-feat" / "result.json").read_text())
    assert study.ours("", "after", "all").mean == result["mean"]
    assert study.ours("", "before", "all").mean == result["before"]["mean"]
    adds = study.ours("", "after", "the set adds")
    assert {"mean": adds.mean, "ci95": adds.ci95} == result["fields"]["set_adds"]
    wider, _ = evaluate_run(made / "runs" / "strokes-feat", way=5)
    assert study.ours("", "after", "wider").mean == wider.mean
    assert (study.rows, study.data) == (("before", "after"), "tiny")
    assert study.columns == ("all", "the set adds", "wider")
    assert study.number("", "before", "wider") is None
    assert (study.blank, study.missing) == (2, 0)


def test_everything_is_computed_on_the_device(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The training, the evaluation, the pictures and the table of features."""
    elsewhere = StudyRunner("strokes", made / "runs", SMALL, device="cuda:99")
    for make in (
        lambda: elsewhere.make(PlannedRun("feat", 5)),
        lambda: run_study("one", TWO, elsewhere, made / "one.json"),
        STUDIES["low-shot"](elsewhere).prepare,
    ):
        with pytest.raises(UserError, match="GPU 99"):
            make()
    monkeypatch.setattr(StudyRunner, "make", lambda *_: made / "runs" / "strokes-feat")
    with pytest.raises(UserError, match="GPU 99"):
        STUDIES["cross-domain"](elsewhere).pictures(made, None)


def test_a_study_continues_where_it_stopped(made: Path, scored: list[dict]) -> None:
    whole = read_study(made / "two.json")
    write_study(replace(whole, numbers=whole.numbers[:3]), made / "two.json")
    again = run_two(made)
    assert [call.get("way") for call in scored] == [5]
    assert [number.stored.mean for number in again.numbers] == [
        number.stored.mean for number in whole.numbers
    ]


def test_other_weights_give_another_number(made: Path, scored: list[dict]) -> None:
    weights = made / "runs" / "strokes-feat" / "model.safetensors"
    model, config = load_weights(weights)
    with torch.no_grad():
        for parameter in model.backbone.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(7))
    save_weights(model, config, weights)
    after = run_two(made)
    assert len(scored) == 2  # one evaluation gives all scores on the same tasks
    assert {one.result.weights_digest for one in after.numbers} == {file_digest(weights)}
    assert run_two(made) == after
    assert len(scored) == 2


def test_other_images_give_another_number(made: Path, scored: list[dict]) -> None:
    study = read_study(made / "two.json")
    other = tuple(replace(one, result=replace(one.result, data_digest="other")) for one in study.numbers)
    write_study(replace(study, numbers=other), made / "two.json")
    assert run_two(made).numbers[0].result.data_digest == open_set("tiny").digest
    assert len(scored) == 2


def test_other_tasks_are_scored_again(made: Path, scored: list[dict]) -> None:
    assert {number.result.tasks for number in run_two(made, tasks=7).numbers} == {7}
    assert len(scored) == 2


def test_runs_of_other_settings_are_not_replaced(made: Path, scored: list[dict]) -> None:
    with pytest.raises(UserError, match="made with other settings"):
        run_two(made, "train.balance=3.0")
    shutil.rmtree(made / "runs")
    numbers = read_study(made / "two.json").numbers
    assert run_two(made).numbers == numbers, "numbers are kept when their runs are removed"
    assert not scored
    assert run_two(made, "train.balance=3.0").numbers != numbers
    assert len(scored) == 2


pytestmark = pytest.mark.usefixtures("tiny_set")


@pytest.mark.usefixtures("tiny_table")
@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_a_plan_for_the_shipped_recipes(name: str, tmp_path: Path) -> None:
    """Each of its runs has a recipe, each place one number, and no two different runs one directory."""
    on = "cub/context" if name == "context" else "strokes"
    runner = StudyRunner(on, tmp_path, ["data.set=tiny"])
    if name == "low-shot":
        runner.features = "tiny-features"
    plan = STUDIES[name](runner)
    places = [entry.place for entry in plan.numbers]
    assert len(set(places)) == len(places)
    recipes = {}
    for entry in plan.numbers:
        recipe = runner.recipe(entry.run)
        assert recipes.setdefault(recipe.name, recipe) == recipe
    assert STUDIES[name].__doc__


def test_the_grids_are_the_papers(tmp_path: Path) -> None:
    runner = StudyRunner("strokes", tmp_path, ["data.set=tiny"])
    values = {
        "heads": (
            "model",
            "adapter_options",
            {"1": {}, "2": {"heads": 2}, "4": {"heads": 4}, "8": {"heads": 8}},
        ),
        "layers": ("model", "adapter_options", {"1": {}, "2": {"layers": 2}, "3": {"layers": 3}}),
        "contrastive": ("train", "balance", {"10": 10, "1": 1, "0.1": 0.1, "0.01": 0.01}),
    }
    for name, (table, key, expected) in values.items():
        for entry in ABLATIONS[name](runner).numbers:
            recipe = runner.recipe(entry.run)
            assert getattr(getattr(recipe, table), key) == expected[entry.row]
            assert f"{recipe.train.shot}-shot 5-way" == entry.column


def test_transductive_models_are_trained_with_queries(tmp_path: Path) -> None:
    """With as many as there are in the tasks that are scored, whatever the recipe trains on."""
    runner = StudyRunner("strokes", tmp_path, ["data.set=tiny", "train.way=7", "evaluate.query=4"])
    plan = STUDIES["transductive"](runner)
    recipes = {(entry.row, entry.column): runner.recipe(entry.run) for entry in plan.numbers}
    for column, shot in (("1-shot 5-way", 1), ("5-shot 5-way", 5)):
        assert recipes["FEAT†", column] == recipes["FEAT‡", column]
        assert recipes["FEAT†", column].model.transductive
        refined = recipes["Semi-ProtoNet", column].model
        assert (refined.head, refined.average) == ("semi_prototype", "post")
        for row in ("FEAT†", "Semi-ProtoNet"):
            train = recipes[row, column].train
            assert (train.way, train.query, train.shot) == (5, 4, shot)
        plain = recipes["FEAT", column]
        assert not plain.model.transductive
        assert plain.train.way == 7


def test_ablate_and_paper_from_the_command_line(tmp_path: Path) -> None:
    where = ["--runs", tmp_path / "runs", "--out", tmp_path / "out", *options(SMALL), "--tasks", 11]
    output = succeed("ablate", "adaptation", *where)
    assert "Pre-Adapt" in output
    for ending in ("json", "md", "csv", "tex", "png", "svg"):
        assert (tmp_path / "out" / "adaptation" / f"adaptation.{ending}").stat().st_size
    drawn = (tmp_path / "out" / "adaptation" / "adaptation.md").read_bytes()
    (tmp_path / "out" / "adaptation" / "adaptation.md").unlink()
    succeed("paper", "adaptation", "--draw", "--out", tmp_path / "out")
    assert (tmp_path / "out" / "adaptation" / "adaptation.md").read_bytes() == drawn
    assert "heads" in succeed("ablate")
    assert "transductive" in succeed("paper")
    assert "there is no study" in fail("paper", "heads", "--draw", "--out", tmp_path / "out")
    assert "ways" in fail("paper", "way")
    assert "Known: adaptation" in fail("ablate", "ways")


@pytest.mark.slow
def test_low_shot_from_a_table_of_features(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(13), 29)
    np.savez(
        tmp_path / "table.npz",
        features=(generator.normal(size=(13, 5))[labels] + generator.normal(size=(len(labels), 5))),
        labels=labels,
        class_split=np.array(["seen", "unseen"])[np.arange(13) % 2],
    )
    succeed("data", "import", "features", tmp_path / "table.npz")
    where = ["--runs", tmp_path / "runs", "--out", tmp_path / "out", "--features", "table"]
    succeed("paper", "low-shot", *where, *options([*TRAIN, "train.validation_query=3"]))
    study = read_study(tmp_path / "out" / "low-shot" / "low-shot.json")
    assert len(study.numbers) == 3 * 4 * 5
    assert (study.data, study.backbone) == ("table", "features")
    result, _ = evaluate_run(tmp_path / "runs" / "strokes-low-shot-feat-table", shot=20)
    assert study.ours("All with prior", "FEAT", "20-shot").mean == result.scores["top5_all_with_prior"].mean
    assert "--features" in fail("paper", "ways", "--features", "table")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transductive", "generalised", "cross-domain"])
def test_the_settings_as_studies(name: str, tmp_path: Path) -> None:
    small = ["train.query=1", "evaluate.query=1", "train.validation_query=1"]
    where = ["--runs", tmp_path / "runs", "--out", tmp_path / "out", *options([*SMALL, *small])]
    succeed("paper", name, *where)
    study = read_study(tmp_path / "out" / name / f"{name}.json")
    assert len(study.numbers) == len(study.panels) * len(study.rows) * len(study.columns)
    if name == "cross-domain":
        assert study.columns == ("even → even", "even → odd", "odd → odd")
        assert (tmp_path / "out" / name / "qualitative.png").read_bytes().startswith(b"\x89PNG")
        assert study.column_keys == ("A → A", "A → B", "B → B")


def test_a_study_says_on_how_many_tasks_its_rows_were_trained(tmp_path: Path) -> None:
    """The tasks of a row, and of the runs that it starts from, are counted by the recipes."""
    runner = StudyRunner("cub/conv4", tmp_path)
    assert runner.training_tasks(PlannedRun("feat", 5)) == (3000, 3000, 1200)
    assert runner.training_tasks(PlannedRun("simpleshot", 5)) == ()
    alike = StudyPlan("Alike", (PlannedNumber("a", "all", PlannedRun("protonet", 1)),))
    unlike = replace(alike, numbers=(*alike.numbers, PlannedNumber("b", "all", PlannedRun("simpleshot", 1))))
    assert study_runner._empty("alike", alike, runner).notes == ()
    (note,) = study_runner._empty("unlike", unlike, runner).notes
    assert "a 3,000; b none" in note
