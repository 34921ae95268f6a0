"""The trackers of fewset with their own libraries: what they were told is read back from their files."""

import socket
import sys
from pathlib import Path

import pytest

from fewset.core.errors import UserError
from fewset.experiments.trackers import TRACKERS, TrackedRun, Tracker
from tests.helpers.tracked import HELD

RECIPE = {"seed": 5, "train.epochs": 3, "model.adapter": "attention", "train.optimiser.nesterov": True}
RESULT = {"test_accuracy": 0.625, "test_ci95": 0.125}
USERS_OWN = ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "WANDB_MODE", "WANDB_PROJECT")


def row(epoch: int) -> dict[str, float]:
    return {"epoch": float(epoch), "loss": 1 / 2**epoch, "best": float(epoch % 2)}


@pytest.fixture(autouse=True)
def _nothing_leaves_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No address is looked up, and no connection made but on this machine."""
    for name in USERS_OWN:
        monkeypatch.delenv(name, raising=False)
    connect = socket.socket.connect

    def only_here(self: socket.socket, address: object) -> None:
        assert self.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "::1"), address
        connect(self, address)

    def no_lookup(host: object, *_: object, **__: object) -> None:
        raise AssertionError(f"{host} was looked up")

    monkeypatch.setattr(socket.socket, "connect", only_here)
    monkeypatch.setattr(socket, "getaddrinfo", no_lookup)


def started(name: str, run: TrackedRun) -> tuple[Tracker, str]:
    tracker = TRACKERS[name]()
    return tracker, tracker.start(run)


@pytest.mark.parametrize("name", HELD)
def test_a_run_that_was_stopped_goes_on_in_the_tracker(name: str, tmp_path: Path) -> None:
    run = TrackedRun("feat", RECIPE, tmp_path / name)
    tracker, number = started(name, run)
    for epoch in (1, 2):
        tracker.row(7 * epoch, row(epoch))
    tracker.finish(None)
    assert not HELD[name](tmp_path / name).ended

    # Killed after the second row was given, and before that was noted: it comes again.
    again, same = started(name, TrackedRun("feat", RECIPE, tmp_path / name, id=number, step=7))
    assert same == number
    for epoch in (2, 3):
        again.row(7 * epoch, row(epoch))
    again.finish(RESULT)

    held = HELD[name](tmp_path / name)
    assert held.runs == 1
    assert held.ended
    for epoch in (1, 2, 3):
        for key, value in row(epoch).items():
            assert held.values[key, 7 * epoch] == [value], (key, epoch)
    for key, value in RESULT.items():
        assert held.values[key, 21] == [value]
    assert {key: value.strip("'\"").lower() for key, value in held.recipe.items() if key in RECIPE} == {
        key: str(value).lower() for key, value in RECIPE.items()
    }


def test_every_tracker_is_read_back() -> None:
    assert {name for name, kind in TRACKERS.items() if kind.__module__.startswith("fewset.")} == set(HELD)


@pytest.mark.parametrize(
    ("name", "module"), [("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow"), ("wandb", "wandb")]
)
def test_what_is_not_installed_is_named(name: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=rf"pip install 'fewset\[{name}\]'"):
        TRACKERS[name]()
