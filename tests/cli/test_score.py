"""score as a user types it, and its figures against a slow count."""

import csv
import json
from collections.abc import Iterator
from math import nan
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.metrics import roc_auc_score

from fewset.classify import embedding as transformer
from fewset.classify.classifier import FewShotClassifier
from fewset.classify.predict.answers import Answer
from fewset.classify.scoring import score_answers
from fewset.classify.trust.calibration import wilson
from fewset.encoders import register_encoder
from tests.helpers.command_line import fail, succeed
from tests.helpers.photos import CLASSES, TinyEncoder, photo, write_photos


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    register_encoder("tiny")(lambda device: TinyEncoder())  # noqa: ARG005
    yield
    transformer._loaded.cache_clear()


@pytest.fixture
def labelled() -> Path:
    """Seven photos a class, of which one is in the wrong folder, and 5 of noise, which is no class."""
    folder = write_photos(Path("labelled"), 7, first=20)
    photo("grass", 99).save(folder / "brick" / "20.png")
    (folder / "noise").mkdir()
    for seed in range(5):
        pixels = np.random.default_rng(seed).integers(0, 255, (40, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "noise" / f"{seed}.png")
    return folder


@pytest.fixture
def classifier() -> Path:
    succeed("fit", write_photos(Path("photos"), 5), "-o", "my.fewset", "--encoder", "tiny")
    return Path("my.fewset")


def test_what_is_printed_and_written_is_counted(classifier: Path, labelled: Path) -> None:
    output = succeed("score", classifier, labelled, "--json", "a.json", "--csv", "a.csv")
    found = json.loads(Path("a.json").read_text())
    with Path("a.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    fitted = FewShotClassifier.load(classifier, encoder=TinyEncoder())
    own = [row for row in rows if row["label"] in CLASSES]
    right = sum(row["class_1"] == row["label"] for row in own)
    assert (found["photos"], found["others"], len(rows)) == (21, 5, 26)
    assert found["right"] == right == round(21 * fitted.score([f"labelled/{r['file']}" for r in own],
                                                              [r["label"] for r in own]))  # fmt: skip
    low, high = wilson(right, 21)
    assert found["interval"] == [low, high]
    assert (
        f"accuracy: {100 * right / 21:.1f} % ({right} of 21 photos; 95 % interval {100 * low:.1f} to"
        in output
    )
    assert "1 photo of brick taken for grass" in output
    assert "surest mistakes: " in output
    assert "brick/20.png: brick taken for grass (" in output
    away = {row["file"] for row in rows if row["class"] == "none of these"}
    assert found["rejected"] == len(away & {row["file"] for row in own})
    assert found["others_rejected"] == len(away) - found["rejected"] > 3
    assert f"rejection: {found['rejected']} of 21 photos" in output
    assert "(labels that are no classes: noise)" in output
    sure = np.mean([float(row["probability_1"]) for row in own])
    assert f"probabilities: {100 * sure:.1f} % on average, {100 * right / 21:.1f} % are right" in output


def test_standard_output_is_for_programs(classifier: Path, labelled: Path) -> None:
    succeed("score", classifier, labelled, "--json", "a.json", "--csv", "a.csv")
    assert succeed("score", labelled, classifier, "--json", "-") == Path("a.json").read_text()
    assert succeed("score", classifier, labelled, "--csv", "-") == Path("a.csv").read_text()
    assert "takes one of --csv and --json" in fail("score", classifier, labelled, "--csv", "-", "--json", "b")


def test_what_cannot_be_scored(classifier: Path, labelled: Path) -> None:
    for label in CLASSES:
        (labelled / label).rename(labelled / f"{label}s")
    message = fail("score", classifier, labelled)
    assert "the classifier knows none; its classes are blue sky, brick, grass; rename the folders" in message
    for file in labelled.rglob("*.png"):
        file.write_text("nonsense")
    assert "none of the 26 photos can be read (blue skys/20.png: not an image" in fail(
        "score", classifier, labelled
    )
    assert "labelled is a folder, expected a classifier first" in fail("score", labelled, labelled)


def test_with_one_photo_a_class_nothing_is_rejected(labelled: Path) -> None:
    succeed("fit", write_photos(Path("few"), 1), "-o", "my.fewset", "--encoder", "tiny")
    assert "rejection: none, which takes two different photos of a class" in succeed(
        "score", "my.fewset", labelled
    )


def test_figures_are_those_of_a_slow_count() -> None:
    """Whatever the order of the photos."""
    generator = np.random.default_rng(0)
    names, count = ["a", "b", "c"], 211
    labels = generator.choice([*names, "x", "y"], count)
    best, sure = generator.choice(names, count), generator.uniform(0.3, 1, count)
    close, away = generator.uniform(size=count), generator.uniform(size=count) < 0.3
    groups = [f"g{number // 4}" if number % 3 else "" for number in range(count)]

    def scored(order: np.ndarray) -> object:
        answers = [
            Answer(str(n), label, probability, ((best[n], sure[n]),), close[n], 0, "")
            for n in order
            for label, probability in [("none", nan) if away[n] else (best[n], sure[n])]
        ]
        return score_answers(answers, labels[order].tolist(), names, [groups[n] for n in order])

    found = scored(np.arange(count))
    own = [n for n in range(count) if labels[n] in names]
    assert found.photos == len(own)
    assert found.right == sum(labels[n] == best[n] for n in own)
    assert found.right_of_accepted == sum(labels[n] == best[n] and not away[n] for n in own)
    assert found.rejected == sum(away[own])
    assert found.independent == len({groups[n] or n for n in own})
    assert {each.label: (each.photos, each.right, each.rejected) for each in found.classes} == {
        name: (
            sum(labels[n] == name for n in own),
            sum(labels[n] == name == best[n] for n in own),
            sum(labels[n] == name and away[n] for n in own),
        )
        for name in names
    }
    for label, taken_for, photos in found.confusions:
        assert photos == sum(labels[n] == label and best[n] == taken_for for n in own)
    assert found.auroc == pytest.approx(roc_auc_score(np.isin(labels, names), close))
    assert [each.probability for each in found.mistakes] == sorted(
        (sure[n] for n in own if labels[n] != best[n]), reverse=True
    )
    shuffled = scored(generator.permutation(count))
    assert shuffled.calibration_error == pytest.approx(found.calibration_error)
    assert (shuffled.right, shuffled.classes, shuffled.independent) == (
        found.right,
        found.classes,
        found.independent,
    )
