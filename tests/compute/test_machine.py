"""The cores that a process may use, and the commit that it runs from."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fewset.compute.machine import _processor_share, commit, usable_cores


@pytest.mark.parametrize(
    ("limit", "share"),
    [
        ("150000 100000\n", 1.5),
        ("max 100000\n", 7),
        (None, 7),
    ],
)
def test_the_limit_of_the_control_group_counts(
    limit: str | None, share: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    if limit is not None:
        (tmp_path / "cpu.max").write_text(limit)
    assert _processor_share(tmp_path) == share


def test_only_the_processors_of_this_process_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    assert usable_cores() == 1


# The commit


def git(tree: Path, *words: str) -> str:
    who = ["-c", "user.name=a test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(tree), *who, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file where this module is in a source tree, in a repository that does not track it yet."""
    file = tmp_path / "tree" / "fewset" / "compute" / "machine.py"
    file.parent.mkdir(parents=True)
    file.write_text("first")
    (tmp_path / "tree" / "README.md").write_text("first")
    git(tmp_path / "tree", "init", "-q")
    git(tmp_path / "tree", "add", "README.md")
    git(tmp_path / "tree", "commit", "-q", "-m", "first")
    return file


@pytest.fixture
def tracked(source: Path) -> Path:
    """The same in a repository that tracks it."""
    git(source.parent, "add", str(source))
    git(source.parent, "commit", "-q", "-m", "second")
    return source


def test_the_commit_is_the_trees_and_names_changes_to_it(tracked: Path) -> None:
    tree, head = tracked.parents[2], git(tracked.parent, "rev-parse", "HEAD")
    (tree / "notes.txt").write_text("not tracked")
    assert commit(tracked) == head
    (tree / "README.md").write_text("changed")
    assert commit(tracked) == f"{head}+changes"
    git(tree, "add", "README.md")
    assert commit(tracked) == f"{head}+changes"


def test_without_git_or_a_repository_the_commit_is_unknown(
    tracked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "wheel" / "fewset" / "compute" / "machine.py"
    file.parent.mkdir(parents=True)
    file.write_text("from a wheel")
    assert commit(file) == "unknown"
    git(tmp_path / "wheel", "init", "-q")
    assert commit(file) == "unknown"  # a repository without a commit
    monkeypatch.setenv("PATH", "")
    assert commit(tracked) == "unknown"


def test_the_repository_around_an_installed_wheel_is_ignored(source: Path) -> None:
    """Neither where the wheel is beside .git (`pip install --target .`), nor in an environment below it."""
    assert commit(source) == "unknown"
    installed = source.parents[2] / ".venv" / "site-packages" / "fewset" / "compute" / "machine.py"
    installed.parent.mkdir(parents=True)
    installed.write_text("from a wheel")
    assert commit(installed) == "unknown"


_FORK = """
import os
import threading
import numpy as np
import torch
from PIL import Image
import fewset
from fewset.training.seeding import seeded

rows = np.random.default_rng(0).normal(size=(600, 1280)).astype(np.float32)
labels = np.arange(600) % 3
photos = [Image.new("RGB", (64, 64), colour) for colour in ("red", "green", "blue")]
table, classes = rows[:, :64].copy(), np.arange(600) % 20

def compute():
    found = [fewset.FewShotClassifier().fit(rows, labels).predict_proba(rows)]
    model = fewset.load("miniimagenet-conv4-feat-1shot")
    found += [each.detach() for each in model.parameters()]
    found.append(fewset.evaluate(model, table, classes, fewset.TaskSpec(tasks=50)).per_task)
    found.append(fewset.embed(photos))
    return found

def train():
    with seeded(0):
        training.set()
        stop.wait()

training, stop = threading.Event(), threading.Event()
thread = threading.Thread(target=train)
thread.start()
training.wait()
torch.set_num_threads(2)
torch.linalg.qr(torch.from_numpy(rows))  # a computation of torch alone
child = os.fork()
if child == 0:
    compute()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop.set()
thread.join()
expected = compute()
child = os.fork()
if child == 0:
    same = all(np.allclose(a, b, atol=1e-5) for a, b in zip(compute(), expected, strict=True))
    os._exit(0 if same else 3)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert torch.get_num_threads() == 2
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here: run it on Linux or macOS")
def test_a_fork_of_a_process_that_has_computed_computes_the_same() -> None:
    """Also while another thread trains."""
    subprocess.run([sys.executable, "-c", _FORK], check=True, timeout=100)
