"""The measurement of "none of these", against a classifier for each task."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks.classifier import rejection
from benchmarks.classifier.rejection import area_under_curve, measured


@pytest.mark.parametrize(("known", "unknown"), [(1, 1), (13, 11), (2, 7)])
def test_area_under_curve(known: int, unknown: int) -> None:
    generator = np.random.default_rng(0)
    first, second = generator.integers(0, 7, known) / 7, generator.integers(0, 7, unknown) / 7
    expected = roc_auc_score(np.repeat([1, 0], [known, unknown]), np.append(first, second))
    assert area_under_curve(first, second) == pytest.approx(expected)


def test_figures_of_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In noise, photos of other classes are rejected as often as a task's own; far apart, all of them are."""
    monkeypatch.setattr(rejection, "SIZES", [(2, 5), (2, 1), (20, 2)])
    random = np.random.default_rng(0)
    labels = np.arange(6).repeat(30)
    for scale, expected, found in ((0.0, 0.5, 0.16), (3.0, 1.0, 1.0)):
        features = random.normal(size=(180, 16)) + scale * random.normal(size=(6, 16))[labels]
        names = [f"{label}/{number}.png" for number, label in enumerate(labels)]
        np.savez(tmp_path / "rows.npz", features=features, labels=labels, names=names)
        cells = measured(tmp_path / "rows.npz", 2, 40, 0)["cells"]
        assert list(cells) == ["2-way 5-shot", "2-way 1-shot"], "4 classes are left for tasks"
        cell = {name: value[0] for name, value in cells["2-way 5-shot"].items() if name != "tasks"}
        assert cell["auroc"] == pytest.approx(expected, abs=0.05)
        assert cell["unknown found at 0.1"] == pytest.approx(found, abs=0.06)
        assert cell["rejected at 0.05"] < cell["rejected at 0.1"] < 0.2
        assert not any("rejected" in name for name in cells["2-way 1-shot"])
