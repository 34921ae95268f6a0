"""What trackers are told of a run: every epoch once, whatever stops the run, and in one process alone."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from fewset.core.errors import UserError
from fewset.experiments.execute import execute
from fewset.experiments.run_directory import TRACKING, RunDirectory
from fewset.experiments.trackers import TrackedRun, register_tracker
from tests.helpers.command_line import PRETRAIN as TINY
from tests.helpers.command_line import fail, options, succeed
from tests.helpers.processes import succeed as succeed_in_processes
from tests.helpers.tiny_recipes import PRETRAIN, recipe
from tests.helpers.tracked import in_tensorboard

pytestmark = pytest.mark.usefixtures("tiny_set")


class Diary:
    """A tracker that writes down what it is told."""

    told: ClassVar[list[tuple]] = []
    failing = ""

    def start(self, run: TrackedRun) -> str:
        self._told("start", run.id, run.step)
        self.recipe = run.recipe
        return "the run"

    def row(self, step: int, values: Mapping[str, float]) -> None:
        self._told("row", step, values["epoch"])
        assert {"loss", "accuracy", "val_accuracy", "best"} <= set(values)

    def finish(self, result: Mapping[str, float] | None) -> None:
        self._told("finish", result)

    def _told(self, *what: object) -> None:
        if what[0] == self.failing:
            raise ConnectionError("no answer\nfrom the server")
        type(self).told.append(what)


@pytest.fixture
def diary(monkeypatch: pytest.MonkeyPatch) -> type[Diary]:
    monkeypatch.setattr(Diary, "told", [])
    monkeypatch.setattr(Diary, "failing", "")
    return register_tracker("diary")(Diary)


def train(out: Path, **options: object) -> dict[str, float]:
    result = execute(recipe(PRETRAIN), "pretrain", out, log_to=["diary"], echo=lambda _: None, **options)
    return {"test_accuracy": result.mean, "test_ci95": result.ci95}


ROWS = [("row", 3 * epoch, float(epoch)) for epoch in (1, 2, 3)]


def test_a_run_from_beginning_to_end(tmp_path: Path, diary: type[Diary]) -> None:
    score = train(tmp_path / "run")
    assert diary.told == [("start", None, 0), *ROWS, ("finish", score)]
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [(row["step"], row["epoch"]) for row in rows] == [row[1:] for row in ROWS]
    train(tmp_path / "run", resume=True)  # it is finished, and the tracker knows that
    assert diary.told[-1] == ("finish", score)
    assert len(diary.told) == 5
    diary.told.clear()
    train(tmp_path / "run", force=True)
    assert diary.told == [("start", None, 0), *ROWS, ("finish", score)]


def test_ctrl_c_finishes_and_the_run_goes_on(
    tmp_path: Path, diary: type[Diary], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after the checkpoint of each epoch, before the tracker was told, or just after it was."""
    save, write = RunDirectory.save_checkpoint, RunDirectory.write_metrics

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    for name, step in (("save_checkpoint", save), ("write_metrics", write)):
        with monkeypatch.context() as patch:
            patch.setattr(RunDirectory, name, lambda self, state, step=step: stop(step(self, state)))
            with pytest.raises(KeyboardInterrupt):
                train(tmp_path / "run", resume=True)
    score = train(tmp_path / "run", resume=True)
    assert diary.told == [
        *(("start", None, 0), ("finish", None)),
        *(("start", "the run", 0), *ROWS[:2], ("finish", None)),
        *(("start", "the run", 6), *ROWS[2:], ("finish", score)),
    ]


def test_a_finished_run_can_be_told_later(tmp_path: Path, diary: type[Diary]) -> None:
    result = execute(recipe(PRETRAIN), "pretrain", tmp_path / "run", echo=lambda _: None)
    assert not (tmp_path / "run" / TRACKING).exists()
    score = train(tmp_path / "run", resume=True)
    assert score["test_accuracy"] == result.mean
    assert diary.told == [("start", None, 0), *ROWS, ("finish", score)]


@pytest.mark.parametrize("failing", ["row", "finish"])
def test_a_tracker_that_fails_does_not_end_the_run(failing: str, tmp_path: Path, diary: type[Diary]) -> None:
    diary.failing, said = failing, []
    execute(recipe(PRETRAIN), "pretrain", tmp_path / "run", log_to=["diary"], echo=said.append)
    assert said == [
        "diary failed (ConnectionError: no answer from the server); the run goes on without it, and --resume "
        "tells it the rest"
    ]
    assert said[0] in (tmp_path / "run" / "log.txt").read_text()
    diary.failing = ""
    score = train(tmp_path / "run", resume=True)
    assert [each for each in diary.told if each[0] != "start"] == [*ROWS, ("finish", score)]


def test_one_that_cannot_start_is_an_error(tmp_path: Path, diary: type[Diary]) -> None:
    diary.failing = "start"
    with pytest.raises(UserError, match=r"^diary failed \(Conn.*server\); .* leave out --log-to diary$"):
        train(tmp_path / "run")


def test_an_unknown_one_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    words = ("pretrain", "strokes/pretrain", "--out", tmp_path / "run", *options(TINY))
    assert "tensorboard" in fail(*words, "--log-to", "tensorbord")
    assert not (tmp_path / "run").exists()


def test_a_damaged_file_has_a_remedy(tmp_path: Path, diary: type[Diary]) -> None:
    train(tmp_path / "run")
    file = tmp_path / "run" / TRACKING / "diary.json"
    file.write_text('{"id": 5}')
    with pytest.raises(UserError, match=r"diary\.json is damaged .*; remove it, and the tracker begins anew"):
        train(tmp_path / "run", resume=True)
    assert diary.told[-1][0] == "finish"


PLUGIN = """
import os
from pathlib import Path
from fewset.experiments.trackers import register_tracker

@register_tracker("notes")
class Notes:
    def start(self, run):
        self.file = Path(os.environ["NOTES"])
        return self._note("start")
    def row(self, step, values):
        self._note(f"row {step}")
    def finish(self, result):
        self._note("finish")
    def _note(self, text):
        with self.file.open("a") as notes:
            print(text, os.environ["RANK"], file=notes)
        return text
"""


@pytest.mark.slow
def test_only_the_main_process_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a tracker may come from a plugin."""
    (tmp_path / "notes.py").write_text(PLUGIN)
    monkeypatch.setenv("NOTES", str(tmp_path / "notes.txt"))
    words = ["--out", tmp_path / "run", "--plugin", tmp_path / "notes.py", "--log-to", "notes"]
    succeed_in_processes(2, "-m", "fewset", "pretrain", "strokes/pretrain", *words, *options(TINY))
    lines = (tmp_path / "notes.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["start", "row", "finish"]
    assert all(line.endswith(" 0") for line in lines)


def test_the_option_of_a_command(tmp_path: Path) -> None:
    words = ("pretrain", "strokes/pretrain", "--out", tmp_path / "run", *options(TINY))
    succeed(*words, "--log-to", "tensorboard", "--log-to", "tensorboard")
    held = in_tensorboard(tmp_path / "run" / TRACKING / "tensorboard")
    (row,) = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert held.values["val_accuracy", row["step"]] == [pytest.approx(row["val_accuracy"])]
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert held.values["test_accuracy", row["step"]] == [pytest.approx(result["mean"])]
    assert held.recipe["data.set"] == "'tiny'"
    assert held.recipe["pretrain.epochs"] == "1"
