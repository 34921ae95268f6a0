"""The trackers of fewset with their own libraries: what they were given is read back from their files."""

import socket
import sys
from pathlib import Path

import pytest

from fewset.core.errors import UserError
from fewset.experiments.trackers import TRACKERS, TrackedRun
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


@pytest.mark.parametrize("name", HELD)
def test_a_resumed_run_is_held_as_a_whole(name: str, tmp_path: Path) -> None:
    run = TrackedRun("feat", RECIPE, tmp_path / name)
    stopped, resumed = TRACKERS[name](), TRACKERS[name]()
    stopped.start(run)
    stopped.row(7, row(1))
    stopped.finish(None)
    assert not HELD[name](tmp_path / name).ended

    resumed.start(run)
    for epoch in (1, 2, 3):
        resumed.row(7 * epoch, row(epoch))
    resumed.finish(RESULT)

    held = HELD[name](tmp_path / name)
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
    with pytest.raises(UserError, match=rf"fewset\[{name}\]"):
        TRACKERS[name]()
