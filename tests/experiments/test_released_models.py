"""Models that come with the package: found by name, scored and started from as any run, and as published."""

import json
import os
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import fewset
from fewset.core.errors import UserError
from fewset.data.images.importing import import_set
from fewset.data.images.store import ImageSet, list_sets
from fewset.experiments import weights as weights_files
from fewset.experiments.recipes import read_recipe
from fewset.experiments.weights import load, load_weights, released_models
from fewset.io.files import file_digest
from fewset.io.paths import packaged_directory
from fewset.paper.runner import StudyRunner
from fewset.paper.study import PlannedRun
from tests.helpers.command_line import PRETRAIN, TRAIN, fail, options, succeed
from tests.helpers.real_files import real_file

REPOSITORY = Path(__file__).parents[2]
FILES = ("recipe.toml", "model.safetensors", "model.safetensors.sha256")


@pytest.fixture
def made(tmp_path: Path, tiny_set: ImageSet, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: ARG001
    """Where two small runs were made and scored; they are released, and the test goes on elsewhere."""
    lab, weights = tmp_path / "lab", tmp_path / "weights"
    succeed("pretrain", "strokes/pretrain", "--runs", lab, *options(PRETRAIN))
    succeed("train", "strokes/feat", "--runs", lab, *options(TRAIN))
    for name in ("strokes-pretrain", "strokes-feat"):
        (weights / name).mkdir(parents=True)
        for file in FILES:
            shutil.copy(lab / name / file, weights / name)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr(weights_files, "packaged_directory", lambda _: weights)
    return lab


def same_score(one: Path, other: Path) -> None:
    """The two runs have the same result, to the last bit of each task."""
    first, second = (json.loads((run / "result.json").read_text()) for run in (one, other))
    for name in ("run", "method", "data_digest", "tasks", "mean", "ci95"):
        assert first[name] == second[name]
    for file in sorted(one.glob("*.npy")):
        assert file.read_bytes() == (other / file.name).read_bytes()


def same_weights(one: Path, other: Path) -> bool:
    return (one / FILES[1]).read_bytes() == (other / FILES[1]).read_bytes()


def test_a_model_is_loaded_by_its_name(made: Path) -> None:
    expected = load(made / "strokes-feat").state_dict()
    for name, value in load("strokes-feat").state_dict().items():
        assert torch.equal(value, expected[name])


def test_a_path_comes_before_a_name(made: Path) -> None:
    shutil.copytree(made / "strokes-pretrain", "strokes-feat")
    assert type(load("strokes-feat").adapter) is type(load("strokes-pretrain").adapter)


@pytest.mark.usefixtures("made")
def test_an_unknown_name_is_answered_with_those_that_exist() -> None:
    with pytest.raises(UserError, match=r"mean 'strokes-feat'\? Known: strokes-feat, strokes-pretrain"):
        load("strokes-fat")


def test_eval_gives_the_result_again_to_the_digit(made: Path) -> None:
    output = succeed("eval", "strokes-feat")
    assert "result: runs/strokes-feat/result.json" in output
    same_score(made / "strokes-feat", Path("runs/strokes-feat"))
    other = json.loads(succeed("eval", "strokes-feat", "--way", 2, "--json"))
    assert other["way"] == 2
    assert len(list(Path("runs/strokes-feat/results").glob("*.json"))) == 1
    same_score(made / "strokes-feat", Path("runs/strokes-feat"))


def test_eval_does_not_take_a_run_of_that_name_for_the_released_model(made: Path) -> None:
    mine = shutil.copytree(made / "strokes-pretrain", "runs/strokes-feat")
    before = {file.name for file in Path(mine).iterdir()}
    assert "for that run give runs/strokes-feat" in fail("eval", "strokes-feat")
    assert {file.name for file in Path(mine).iterdir()} == before
    assert "Supervised" in succeed("eval", "runs/strokes-feat")


def test_training_starts_from_a_released_model(made: Path) -> None:
    output = succeed("train", "strokes/feat", *options(TRAIN))
    start = "starts from ../weights/strokes-pretrain"
    assert start in output.replace("\n", "")
    assert start in Path("runs/strokes-feat/log.txt").read_text()
    assert same_weights(made / "strokes-feat", Path("runs/strokes-feat"))


@pytest.mark.usefixtures("made")
def test_what_training_cannot_start_from() -> None:
    itself = fail("pretrain", "strokes/pretrain", *options([*PRETRAIN, "pretrain.init=strokes-pretrain"]))
    assert "would learn from itself; name the new run" in itself
    absent = fail("train", "strokes/feat", *options([*TRAIN, "train.init=strokes-pretrained"]))
    assert "no such released model (strokes-feat, strokes-pretrain)" in absent
    assert "holds out items" in fail("train", "strokes/feat", *options([*TRAIN, "data.hold_out=0.25"]))


def test_a_study_takes_released_models_of_the_same_recipe(made: Path) -> None:
    said: list[str] = []
    runner = StudyRunner("strokes", Path("runs"), [*PRETRAIN, *TRAIN], echo=said.append)
    run = runner.make(PlannedRun("feat", 1))
    assert said == ["released with fewset: strokes-feat"]
    assert not (run / "metrics.jsonl").exists()
    same_score(made / "strokes-feat", run)
    runner.make(PlannedRun("protonet", 1))
    assert said[1:3] == [
        "released with fewset: strokes-pretrain",
        "train: strokes-protonet",
    ]


def test_what_is_shipped_is_found_in_a_wheel_and_in_a_source_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    for name in ("recipes", "weights"):
        assert project["wheel"]["force-include"][name] == f"fewset/_{name}"
        assert f"/{name}" not in project["sdist"]["exclude"]
        assert packaged_directory(name) == REPOSITORY / name
        assert (REPOSITORY / name).is_dir()
    monkeypatch.setattr(fewset, "__file__", str(tmp_path / "fewset" / "__init__.py"))
    (tmp_path / "fewset" / "_weights").mkdir(parents=True)
    assert packaged_directory("weights") == tmp_path / "fewset" / "_weights"


# The models that are really released

RELEASED = released_models()


def published(name: str) -> Path:
    (result,) = (REPOSITORY / "results" / "runs").glob(f"*/{name}/result.json")
    return result.parent


@pytest.mark.parametrize("name", RELEASED)
def test_every_released_model_is_whole_small_and_published(name: str) -> None:
    recipe = read_recipe(RELEASED[name] / "recipe.toml")
    model, config = load_weights(RELEASED[name] / "model.safetensors")
    assert recipe.name == name
    assert recipe.model == config
    assert all(value.isfinite().all() for value in model.state_dict().values())
    assert (RELEASED[name] / "model.safetensors").stat().st_size < 1e6
    assert (RELEASED[name] / "model.safetensors.sha256").read_text() == (
        f"{file_digest(RELEASED[name] / 'model.safetensors')}  model.safetensors\n"
    )
    assert recipe == read_recipe(published(name) / "recipe.toml")


def scored_again() -> list[str]:
    """All released models on request, otherwise two: a real set takes its time."""
    two = ("miniimagenet-conv4-feat-1shot", "omniglot-feat-1shot")
    return [name for name in RELEASED if name in two or os.environ.get("FEWSET_ALL_WEIGHTS")]


KINDS = {"miniimagenet": "miniimagenet", "cub": "cub", "omniglot": "omniglot", "sketchy": "domains"}


@pytest.fixture(scope="module")
def real_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home for the real image sets, each imported once; they are large, so nothing is left of it."""
    home = tmp_path_factory.mktemp("real")
    yield home
    shutil.rmtree(home)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", scored_again())
def test_released_weights_give_the_published_result_again(
    name: str, real_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEWSET_HOME", str(real_home))
    monkeypatch.chdir(tmp_path)
    data = read_recipe(RELEASED[name] / "recipe.toml").data.set
    file, _, size = data.partition("-")  # miniimagenet-96 is stored at 96 pixels
    if file in KINDS and data not in list_sets():
        import_set(KINDS[file], real_file(f"{file}.zip"), data, int(size) if size else None)
    succeed("eval", name)
    once, again = (
        json.loads((run / "result.json").read_text()) for run in (published(name), Path("runs") / name)
    )
    for fact in ("run", "method", "data_digest", "tasks"):
        assert once[fact] == again[fact]
    for number in ("mean", "ci95"):  # to the last digit shown; beyond it, processors round differently
        assert again[number] == pytest.approx(once[number], abs=5e-5)
