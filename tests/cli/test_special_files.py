"""Pipes, devices and sockets in the place of a run's files: one line, and nobody waits."""

from pathlib import Path

import pytest

from tests.helpers.command_line import fail
from tests.helpers.disks import SPECIAL, make_special
from tests.helpers.results import MakeRun


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize(
    "name", ["result.json", "recipe.toml", "model.safetensors", "metrics.jsonl", "per_task.npy"]
)
def test_a_run_with_something_else_than_a_file(
    name: str, kind: str, make_run: MakeRun, tmp_path: Path
) -> None:
    run = make_run()
    make_special(run / name, kind)
    for words in (
        ["report", run, "--out", tmp_path / "report"],
        ["results", tmp_path / "kept", "--add", run],
    ):
        told = fail(*words)
        assert f"{run / name} is not a regular file" in told
        assert "\n" not in told
    assert not (tmp_path / "report").exists()
