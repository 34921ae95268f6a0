"""Work on the page is saved as it changes, offered at the next start, and opened."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Semaphore

import httpx2 as httpx
import pytest

from fewset.classify.model import EncoderStamp
from fewset.classify.saving import load_classifier
from fewset.classify.serve import project
from fewset.classify.serve.project import Project, earlier_work, work_file
from fewset.classify.serve.workbench import Moment, Workbench
from tests.helpers.web import STAMP, client, files, teach


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
    monkeypatch.setattr(project, "SAVE_SECONDS", 0.01)
    with Project(Workbench(STAMP), tmp_path / "work" / "a.fewset") as saving:
        saving.save()
    assert list(tmp_path.iterdir()) == []


def test_work_that_cannot_be_saved_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project, "SAVE_SECONDS", 0.01)
    tries = Semaphore(0)

    class Full(Workbench):
        def moment(self, patience: float | None = None) -> Moment:
            if patience is None:  # at the beginning and at the end
                return super().moment()
            tries.release()
            raise OSError("no room")

    with pytest.warns(UserWarning, match="the work is not saved: no room") as told:  # noqa: SIM117
        with Project(Full(STAMP), tmp_path / "a.fewset"):
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


def sizes(opened: httpx.Client) -> dict[str, int]:
    classes = opened.get("/api/state").json()["classes"]
    return {each["name"]: len(each["photos"]) for each in classes}


def test_earlier_work_is_opened_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each piece of work stays in its own file, whichever is opened; a copy gets a new one."""
    monkeypatch.setenv("FEWSET_HOME", str(tmp_path))
    (tmp_path / "serve").mkdir()
    (tmp_path / "serve" / "work-damaged.fewset").write_bytes(b"nothing")
    with client() as opened:
        assert opened.get("/api/project/earlier").json() == []
        teach(opened, shots=2)
        downloaded = opened.get("/api/downloads/classifier").content
        assert opened.get("/api/project").json()["unsaved"]
        opened.post("/api/project/upload", files={"file": ("my.fewset", downloaded)}).raise_for_status()
        opened.post("/api/classes/rename", json={"name": "grass", "new_name": "lawn"})
        (first,) = opened.get("/api/project/earlier").json()
        assert (first["classes"], first["photos"]) == (["blue sky", "brick", "grass"], 6)
        assert opened.get("/api/project").json()["unsaved"]

        opened.post("/api/project/open", json={"file": first["file"]}).raise_for_status()
        assert sizes(opened) == {"blue sky": 2, "brick": 2, "grass": 2}
        about = opened.get("/api/project").json()
        assert (about["file"], about["unsaved"]) == (first["file"], False)
        assert opened.get("/api/state").json()["undo"] is None
        (second,) = opened.get("/api/project/earlier").json()
        assert (second["classes"], second["photos"]) == (["blue sky", "brick", "lawn"], 6)


def test_what_cannot_be_opened_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEWSET_HOME", str(tmp_path))
    with client() as other:
        teach(other, shots=2)
        good = other.get("/api/downloads/classifier").content
    with client() as opened:
        opened.post("/api/photos", data={"label": "grass"}, files=files("grass", 1))
        for path, given, reason in (
            ("open", {"json": {"file": "../my.fewset"}}, "no earlier work"),
            ("upload", {"files": {"file": ("a.fewset", b"nothing")}}, "the file is not a usable classifier"),
            ("upload", {"files": {"file": ("a.fewset", good)}}, "two classes with photos"),
        ):
            answer = opened.post(f"/api/project/{path}", **given)
            assert answer.status_code == 400, answer.text
            assert reason in answer.json()["detail"]
            assert str(tmp_path) not in answer.text
            assert sizes(opened) == {"grass": 1}


def test_a_file_of_another_encoder_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEWSET_HOME", str(tmp_path))
    other = Workbench(EncoderStamp("other", "0" * 64))
    with client(bench=other) as opened:
        teach(opened, shots=2)
        content = opened.get("/api/downloads/classifier").content
    with client() as opened:
        answer = opened.post("/api/project/upload", files={"file": ("a.fewset", content)})
        assert answer.status_code == 400
        assert "made with the encoder other" in answer.json()["detail"]
