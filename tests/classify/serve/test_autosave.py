"""Work on the page is saved by itself, and offered at the next start."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Semaphore

import httpx2 as httpx
import pytest

from fewset.classify.saving import load_classifier
from fewset.classify.serve import server
from fewset.classify.serve.server import Autosave, earlier_work, work_file
from fewset.classify.serve.workbench import Moment, Workbench
from tests.helpers.web import STAMP, files


@pytest.mark.slow  # starts servers
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_saves_the_work_and_the_next_start_offers_it(number: int, tmp_path: Path) -> None:
    environment = {**os.environ, "FEWSET_HOME": str(tmp_path)}

    def serve() -> tuple[subprocess.Popen, list[str]]:
        command = [sys.executable, "-m", "fewset", "serve", "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        lines = []
        while not lines or "saved to" not in lines[-1]:
            lines.append(server.stdout.readline())  # type: ignore[union-attr]
        return server, lines

    server, lines = serve()
    address = lines[-2].split()[-1]
    for label in ("grass", "brick"):
        given = {"data": {"label": label}, "files": files(label, 2)}
        assert httpx.post(f"{address}api/photos", **given, timeout=60).status_code == 200
    server.send_signal(number)
    server.wait(60)
    (saved,) = (tmp_path / "serve").glob("work-*.fewset")
    assert sorted(load_classifier(saved)[0].support.classes.tolist()) == ["brick", "grass"]
    server, lines = serve()
    server.kill()
    assert any(str(saved) in line and "continue" in line for line in lines)


def test_nothing_is_written_before_something_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SAVE_SECONDS", 0.01)
    with Autosave(Workbench(STAMP), tmp_path / "work" / "a.fewset") as saving:
        saving.save(saving.bench.moment())
    assert list(tmp_path.iterdir()) == []


def test_work_that_cannot_be_saved_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SAVE_SECONDS", 0.01)
    tries = Semaphore(0)

    class Full(Workbench):
        def moment(self, patience: float | None = None) -> Moment:
            if patience is None:  # the last try, at the end
                return super().moment()
            tries.release()
            raise OSError("no room")

    with pytest.warns(UserWarning, match="the work is not saved: no room") as told:  # noqa: SIM117
        with Autosave(Full(STAMP), tmp_path / "a.fewset"):
            assert all(tries.acquire(timeout=60) for _ in range(3))
    assert len(told) == 1


def test_opened_work_goes_on_in_its_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEWSET_HOME", str(tmp_path))
    first = work_file()
    first.parent.mkdir()
    first.write_bytes(b"")
    assert work_file(first) == first
    other = work_file(tmp_path / "my.fewset")
    assert other.parent == first.parent
    assert [file for file, _ in earlier_work(other)] == [first]
    assert earlier_work(first) == []
