"""What of a run directory is a run's own, and when it may be written to."""

from contextlib import suppress
from pathlib import Path

import pytest

from fewset.core.errors import UserError
from fewset.experiments.recipes import parse_recipe
from fewset.experiments.run_directory import RunDirectory
from fewset.experiments.score_run import evaluate_run
from fewset.experiments.train_run import execute

pytestmark = pytest.mark.usefixtures("tiny_set")

MODEL = {"backbone": "conv4", "backbone_options": {"input_size": 16, "dim": 8}}
FEAT = {
    "name": "feat",
    "data": {"set": "tiny", "hold_out": 0.4},
    "model": {**MODEL, "adapter": "attention"},
    "train": {
        "way": 3, "query": 2, "epochs": 1, "tasks_per_epoch": 2, "validation_way": 3, "validation_query": 2,
        "validation_tasks": 5,
    },
    "evaluate": {"way": 3, "query": 3, "tasks": 5},
}  # fmt: skip
SETTINGS = {
    "standard": {},
    "transductive": {"variant": "double-dagger"},
    "generalised": {"validation_tasks": 5},
    "cross-domain": {"support_domain": "even", "query_domain": "odd"},
}
MINE = {
    "notes.txt", "results/notes.txt", "results/table.json", "results/mine/feat-seed0.json",
    "checkpoint/notes.txt", "accuracy.npy", "figures/examples.npz",
}  # fmt: skip


def files(directory: Path) -> set[str]:
    return {str(file.relative_to(directory)) for file in directory.rglob("*") if file.is_file()}


def score_in_every_setting(run: Path) -> None:
    for setting, options in SETTINGS.items():
        evaluate_run(run, setting=setting, options=options, query=2, tasks=7)


def test_force_clears_everything_that_a_run_left_and_nothing_else(tmp_path: Path) -> None:
    run = tmp_path / "feat"
    execute(parse_recipe(FEAT), "train", run)
    score_in_every_setting(run)
    left = files(run)
    assert len(list((run / "results").glob("*.json"))) == len(SETTINGS)
    assert {"examples.npz", "per_task.npy", "per_task_before.npy", "checkpoint/last.pt"} < left
    assert {"model.safetensors.sha256", "checkpoint/last.pt.sha256"} < left
    for name in MINE:
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text(f"mine: {name}")
    RunDirectory(run).begin("# new", resume=False, force=True)
    assert files(run) == MINE | {"recipe.toml", "environment.json"}
    for name in MINE:
        assert (run / name).read_text() == f"mine: {name}"


@pytest.mark.parametrize("changes", [{"train": {**FEAT["train"], "epochs": 2}}, {"seed": 1}, {"method": "x"}])
def test_a_finished_run_of_another_recipe_is_not_resumed(changes: dict, tmp_path: Path) -> None:
    run = tmp_path / "feat"
    done = execute(parse_recipe(FEAT), "train", run)
    before = {name: (run / name).read_bytes() for name in files(run)}
    with pytest.raises(UserError, match=r"the recipe differs from .*recipe\.toml.*--force"):
        execute(parse_recipe({**FEAT, **changes}), "train", run, resume=True)
    with pytest.raises(UserError, match="give one of them"):
        execute(parse_recipe(FEAT), "train", run, resume=True, force=True)
    assert execute(parse_recipe(FEAT), "train", run, resume=True) == done
    assert {name: (run / name).read_bytes() for name in files(run)} == before


def test_a_second_process_in_a_run_is_rejected(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    with run.locked():
        with pytest.raises(UserError, match="another process"), run.locked():
            pass
        run.begin("", resume=False, force=False)  # the lock is no file of a run
    assert sorted(file.name for file in run.path.iterdir()) == ["environment.json", "recipe.toml"]


def test_nothing_is_left_of_a_run_that_did_not_begin(tmp_path: Path) -> None:
    with RunDirectory(tmp_path / "runs" / "run").locked():
        pass
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("text", ["{", "7"])
def test_a_damaged_environment_is_rejected(text: str, tmp_path: Path) -> None:
    (tmp_path / "environment.json").write_text(text)
    with pytest.raises(UserError, match=r"environment\.json") as caught:
        _ = RunDirectory(tmp_path).made_of
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("folder", ["results", "checkpoint", "tracking", "log.txt"])
def test_nothing_is_written_or_removed_through_a_link(folder: str, tmp_path: Path) -> None:
    run, elsewhere = tmp_path / "feat", tmp_path / "elsewhere"
    execute(parse_recipe(FEAT), "train", run)
    evaluate_run(run, query=2, tasks=7)
    (run / "tracking").mkdir()
    (run / folder).rename(elsewhere)
    (run / folder).symlink_to("../elsewhere")
    before = contents(elsewhere)
    for act in (
        lambda: execute(parse_recipe(FEAT), "train", run, force=True, log_to=["tensorboard"]),
        lambda: evaluate_run(run, query=2, tasks=3),
    ):
        with suppress(UserError):  # where nothing is to be written there, it is no error
            act()
        assert contents(elsewhere) == before


def contents(path: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in (path, *path.rglob("*")) if file.is_file()}
