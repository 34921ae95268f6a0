"""The number of threads, by what the process is allowed."""

from pathlib import Path

import pytest

from fewset.runtime.machine import _processor_share, usable_cores


@pytest.mark.parametrize(
    ("files", "share"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3.0),
    ],
)
def test_a_limit_of_the_control_group_counts(files: dict[str, str], share: float, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert _processor_share(tmp_path) == share


@pytest.mark.parametrize("files", [{}, {"cpu.max": "max 100000\n"}, {"cpu/cpu.cfs_quota_us": "-1\n"}])
def test_without_a_limit_all_processors_count(
    files: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 7)
    for name, text in {"cpu/cpu.cfs_period_us": "100000\n", **files}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert _processor_share(tmp_path) == 7


def test_only_the_processors_of_this_process_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    assert usable_cores() == 1
