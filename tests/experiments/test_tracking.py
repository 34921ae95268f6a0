"""What trackers get of a run: every epoch once, in one process alone; one that fails does not end it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from fewset.core.errors import UserError
from fewset.experiments.run_directory import TRACKING
from fewset.experiments.trackers import TrackedRun, register_tracker
from fewset.experiments.train_run import execute
from fewset.training.checkpoint import TrainingFiles
from tests.helpers.command_line import PRETRAIN as TINY
from tests.helpers.command_line import options, succeed
from tests.helpers.processes import succeed as succeed_in_processes
from tests.helpers.tiny_recipes import PRETRAIN, recipe
from tests.helpers.tracked import in_tensorboard

pytestmark = pytest.mark.usefixtures("tiny_set")


class Diary:
    """A tracker that writes down what it is given."""

    pages: ClassVar[list[tuple]] = []
    failing = ""

    def start(self, run: TrackedRun) -> None:
        self._write("start", run.name)

    def row(self, step: int, values: Mapping[str, float]) -> None:
        self._write("row", step, values["epoch"])
        assert {"loss", "accuracy", "val_accuracy", "best"} <= set(values)

    def finish(self, result: Mapping[str, float] | None) -> None:
        self._write("finish", result)

    def _write(self, *page: object) -> None:
        if page[0] == self.failing:
            raise ConnectionError("no answer\nfrom the server")
        type(self).pages.append(page)


@pytest.fixture
def diary(monkeypatch: pytest.MonkeyPatch) -> type[Diary]:
    monkeypatch.setattr(Diary, "pages", [])
    monkeypatch.setattr(Diary, "failing", "")
    return register_tracker("diary")(Diary)


def train(out: Path, **options: object) -> dict[str, float]:
    result = execute(recipe(PRETRAIN), "pretrain", out, log_to=["diary"], echo=lambda _: None, **options)
    return {"test_accuracy": result.mean, "test_ci95": result.ci95}


START = ("start", "pre")
ROWS = [("row", 3 * epoch, float(epoch)) for epoch in (1, 2, 3)]


def test_a_run_from_beginning_to_end(tmp_path: Path, diary: type[Diary]) -> None:
    score = train(tmp_path / "run")
    assert diary.pages == [START, *ROWS, ("finish", score)]
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [(row["step"], row["epoch"]) for row in rows] == [row[1:] for row in ROWS]
    train(tmp_path / "run", resume=True)  # it is finished
    assert len(diary.pages) == 5


def test_a_resumed_run_begins_again_with_all_rows(
    tmp_path: Path, diary: type[Diary], monkeypatch: pytest.MonkeyPatch
) -> None:
    save = TrainingFiles.save_checkpoint

    def save_and_stop(run: TrainingFiles, state: dict) -> None:
        save(run, state)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TrainingFiles, "save_checkpoint", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "run")
    assert diary.pages == [START, ("finish", None)]
    score = train(tmp_path / "run", resume=True)
    assert diary.pages[2:] == [START, *ROWS, ("finish", score)]


@pytest.mark.parametrize("failing", ["row", "finish"])
def test_a_tracker_that_fails_does_not_end_the_run(failing: str, tmp_path: Path, diary: type[Diary]) -> None:
    diary.failing, said = failing, []
    execute(recipe(PRETRAIN), "pretrain", tmp_path / "run", log_to=["diary"], echo=said.append)
    (warning,) = said
    assert "diary failed (ConnectionError: no answer from the server)" in warning
    assert warning in (tmp_path / "run" / "log.txt").read_text()


def test_one_that_cannot_start_is_an_error(tmp_path: Path, diary: type[Diary]) -> None:
    diary.failing = "start"
    with pytest.raises(UserError, match="leave out --log-to diary"):
        train(tmp_path / "run")


PLUGIN = """
import os
from pathlib import Path
from fewset.experiments.trackers import register_tracker

@register_tracker("notes")
class Notes:
    def start(self, run):
        self.file = Path(os.environ["NOTES"])
        self._note("start")
    def row(self, step, values):
        self._note(f"row {step}")
    def finish(self, result):
        self._note("finish")
    def _note(self, text):
        with self.file.open("a") as notes:
            print(text, os.environ["RANK"], file=notes)
"""


@pytest.mark.slow
def test_only_the_main_process_has_trackers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
