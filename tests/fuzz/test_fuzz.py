"""The small run of the fuzzing room, and that the room sees what is wrong."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fewset.encoders import ENCODERS
from tests.fuzz.case import Case, Ending, load_readers
from tests.fuzz.invariant import Watch, judge
from tests.fuzz.readers.options import commands, plain
from tests.fuzz.room import Room, build_room
from tests.fuzz.worker import Worker
from tests.helpers.members import private_members

INPUTS = 4
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    worker = Worker(built_room(tmp_path_factory.mktemp("fuzz") / "room"), seed=0)
    yield worker
    worker.stop()


def built_room(folder: Path) -> Room:
    """Built in this process, which is then as before: other tests register an encoder "tiny", too."""
    with pytest.MonkeyPatch.context() as patch, private_members():
        patch.setenv("FEWSET_HOME", "set by build_room")
        return build_room(folder)


def test_a_room_leaves_nothing_in_the_process_that_builds_it(tmp_path: Path) -> None:
    """Else it could not be built again there, nor could tests of other files follow."""
    assert built_room(tmp_path / "room").classifier.is_file()
    assert "tiny" not in ENCODERS


@pytest.mark.parametrize("name", load_readers())
def test_what_is_whole_is_accepted(name: str, worker: Worker) -> None:
    """Else the damaged would be refused for another reason than its damage."""
    for number in (-1, -2, -3):
        verdict, words = worker.read(name, number)
        whole = ("accepted", "refused") if name == "HTTP" else ("accepted",)  # of eight requests some clash
        assert verdict.kind in whole, (words, verdict.detail)


@pytest.mark.parametrize("name", load_readers())
def test_what_is_damaged_is_accepted_or_refused_in_one_line(name: str, worker: Worker) -> None:
    for number in range(1, 1 + INPUTS):
        verdict, words = worker.read(name, number)
        assert verdict.good, (words, verdict.kind, verdict.detail)


def test_a_worker_that_crashes_is_told_and_started_anew(worker: Worker) -> None:
    assert worker.read("results", 1)[0].good
    assert worker._process is not None
    worker._process.kill()
    assert worker.read("results", 1)[0].kind == "crash"
    assert worker.read("results", 1)[0].good


def test_the_commands_with_words_of_their_own_are_commands(tmp_path: Path) -> None:
    assert set(plain(Room(tmp_path))) <= set(commands())


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    for place in ("home", "user", "work"):
        (tmp_path / "room" / place).mkdir(parents=True)
    (tmp_path / "room" / "home" / "set.npy").write_bytes(b"abc")
    monkeypatch.chdir(tmp_path / "room" / "work")
    return Room(tmp_path / "room")


def ended(code: int, err: str = "", out: str = "") -> Ending:
    return Ending(code, out, err)


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        (ended(0), "accepted"),
        (ended(2, "error: the file is damaged\n"), "refused"),
        (ended(2, "warning: x\nerror: the file is damaged\n"), "refused"),
        (ended(2, "Usage: fewset\nTry 'fewset --help'\n"), "refused"),
        (ended(2, "error: the file\nis damaged\n"), "not one line"),
        (ended(2, "error:\n"), "not one line"),
        (ended(2, ""), "not one line"),
        (ended(1, "error: the file is damaged\n"), "exit code"),
        (ended(-11), "exit code"),
        (ended(2, "Traceback (most recent call last):\nKeyError: 1\n"), "traceback"),
        (ended(0, "", "Traceback (most recent call last):\n"), "traceback"),
    ],
)
def test_endings(ending: Ending, kind: str, room: Room) -> None:
    assert judge(room, Case((), act=lambda: ending), Watch([str(room.root)])).kind == kind


def test_damage_that_a_digest_tells_must_be_refused(room: Room) -> None:
    case = Case((), only_refusal=True, act=lambda: ended(0))
    assert judge(room, case, Watch([str(room.root)])).kind == "accepted, though damaged"


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("work/out.json", "accepted"),
        ("home/mine/x", "accepted"),
        ("home/x", "changed"),
        ("x", "changed"),
        ("home/set.npy", "changed"),
        ("work/.x.12.partial", "left over"),
    ],
)
def test_files_beside_are_seen(place: str, kind: str, room: Room) -> None:
    def write() -> Ending:
        (room.root / place).parent.mkdir(exist_ok=True)
        (room.root / place).write_bytes(b"abd")
        return ended(0)

    assert judge(room, Case((), ("home/mine",), act=write), Watch([str(room.root)])).kind == kind


def test_what_a_process_does_elsewhere_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    watch = Watch([str(tmp_path / "room")], on=True)
    write = os.O_WRONLY | os.O_CREAT
    watch._see("open", ("room/a", "w", write))
    watch._see("open", ("elsewhere", "r", os.O_RDONLY))
    watch._see("os.rename", ("room/a", "room/b", -1, -1))
    watch._see("subprocess.Popen", ("git", ["git"], None, None))
    watch._see("os.mkdir", ("/dev/zero/a/b", 0o777, -1))  # fails, since /dev/zero is no directory
    assert watch.seen == []
    watch._see("open", ("room/../a", "w", write))
    watch._see("os.mkdir", ("b", 0o777, -1))
    watch._see("os.rename", ("room/a", "c", -1, -1))
    watch._see("os.system", (b"touch d",))
    watch._see("socket.connect", (None, ("localhost", 80)))
    assert [line.split()[0] for line in watch.seen] == [
        "open", "os.mkdir", "os.rename", "os.system", "socket.connect",
    ]  # fmt: skip
