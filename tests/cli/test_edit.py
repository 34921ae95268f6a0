"""add, remove and rename as a user types them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fewset.classify import embedding as transformer
from fewset.classify.classifier import FewShotClassifier
from fewset.encoders import register_encoder
from tests.helpers.classifier_tasks import labelled_rows
from tests.helpers.command_line import fail, succeed
from tests.helpers.photos import TinyEncoder, photo, write_photos


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    register_encoder("tiny")(lambda device: TinyEncoder())  # noqa: ARG005
    yield
    transformer._loaded.cache_clear()


@pytest.fixture
def classifier() -> Path:
    succeed("fit", write_photos(Path("photos"), 4), "-o", "my.fewset", "--encoder", "tiny")
    return Path("my.fewset")


def loaded(file: str | Path = "my.fewset") -> FewShotClassifier:
    return FewShotClassifier.load(file, encoder=TinyEncoder())


def shots(file: str | Path = "my.fewset") -> dict[str, int]:
    support = loaded(file).learned_.support
    return dict(zip(support.classes.tolist(), support.shots.tolist(), strict=True))


def same_answers(one: FewShotClassifier, other: FewShotClassifier) -> None:
    """In another order of the classes too: sums in another order differ in the last digits."""
    new = [photo("grass", 50), photo("brick", 51), photo("blue sky", 52)]
    assert one.classes_.tolist() == other.classes_.tolist()
    np.testing.assert_allclose(one.predict_proba(new), other.predict_proba(new), rtol=1e-6)


def test_added_photos_count_as_those_of_the_fit(classifier: Path) -> None:
    """In either order of the arguments; photos that are there already are not added again."""
    write_photos(Path("photos"), 2, first=10)
    with pytest.warns(UserWarning, match="there already, with the same label: 12"):
        output = succeed("add", "photos", classifier)
    assert "photos added: 6" in output
    assert "3 classes of 6 photos" in output
    assert "3 classes of 6 photos" in succeed("info", classifier)
    assert "| grass | 6 |" in Path("my.fewset.md").read_text()
    same_answers(loaded(), FewShotClassifier(TinyEncoder()).fit("photos"))


def test_photos_of_one_class(classifier: Path) -> None:
    for number in range(3):
        photo("brick", 60 + number).save(f"{number}.png")
    Path("broken.jpg").write_text("nonsense")
    output = succeed("add", classifier, "0.png", "1.png", "--label", "wall", "-o", "other.fewset")
    assert "photos added: 2" in output
    assert shots("other.fewset") == {"blue sky": 4, "brick": 4, "grass": 4, "wall": 2}
    assert shots() == {"blue sky": 4, "brick": 4, "grass": 4}
    succeed("add", classifier, "2.png", "--label", "brick")
    assert shots()["brick"] == 5
    before = classifier.read_bytes()
    assert "no photo of 'wall' can be read" in fail("add", classifier, "broken.jpg", "--label", "wall")
    assert "is read and cannot be written too" in fail(
        "add", classifier, "0.png", "--label", "a", "-o", "0.png"
    )
    assert "give one of the options" in fail(
        "add", classifier, "0.png", "--label", "a", "--classes-from", "top"
    )
    assert classifier.read_bytes() == before


def test_an_unreadable_photo_is_left_out_and_named(classifier: Path) -> None:
    write_photos(Path("more"), 1, first=30)
    Path("more/grass/broken.jpg").write_text("nonsense")
    assert "photos left out: 1\n  grass/broken.jpg: not an image" in succeed("add", classifier, "more")


def test_removed_classes_and_photos(classifier: Path) -> None:
    succeed("remove", classifier, "brick", "--photo", "grass/0.png", "--photo", "grass/3.png")
    assert shots() == {"blue sky": 4, "grass": 2}
    shutil.rmtree("photos/brick")
    for number in (0, 3):
        Path(f"photos/grass/{number}.png").unlink()
    same_answers(loaded(), FewShotClassifier(TinyEncoder()).fit("photos"))
    before = classifier.read_bytes()
    assert "unknown class 'gras'. Did you mean 'grass'?" in fail("remove", classifier, "gras")
    assert "unknown photo 'grass/7.png'" in fail("remove", classifier, "--photo", "grass/7.png")
    assert "there is nothing to remove" in fail("remove", classifier)
    assert "got photos of 1 class (blue sky), expected 2 or more" in fail("remove", classifier, "grass")
    assert classifier.read_bytes() == before


def test_renamed_and_merged_classes(classifier: Path) -> None:
    succeed("rename", classifier, "brick", "wall")  # the last now, no longer the second
    assert "| wall | 4 |" in Path("my.fewset.md").read_text()
    Path("photos/brick").rename("photos/wall")
    same_answers(loaded(), FewShotClassifier(TinyEncoder()).fit("photos"))
    assert "there is a class 'grass' already" in fail("rename", classifier, "wall", "grass")
    assert "unknown class 'brick'" in fail("rename", classifier, "brick", "stone")
    assert "which means that a photo is of no class" in fail("rename", classifier, "wall", "none of these")
    succeed("rename", classifier, "wall", "grass", "--merge")
    assert shots() == {"blue sky": 4, "grass": 8}


def test_labels_that_are_numbers(tmp_path: Path) -> None:
    files = sorted(write_photos(tmp_path / "photos", 2).rglob("*.png"))
    FewShotClassifier("tiny").fit(files, np.arange(6) // 2).save("my.fewset")
    succeed("rename", "my.fewset", "0", "7")
    succeed("remove", "my.fewset", "1")
    photo("brick", 9).save("0.png")
    succeed("add", "my.fewset", "0.png", "--label", "2")
    assert shots() == {2: 3, 7: 2}
    assert "the classes are whole numbers" in fail("rename", "my.fewset", "7", "seven")


def test_in_python_rows_are_renamed_too() -> None:
    X, y = labelled_rows(1)  # noqa: N806
    classifier = FewShotClassifier().fit(X, y)
    old = classifier.classes_.tolist()
    before = classifier.predict_proba(X)
    classifier.rename_class(old[0], max(old) + 1)
    assert classifier.classes_.tolist() == [*old[1:], max(old) + 1]
    np.testing.assert_allclose(classifier.predict_proba(X), np.roll(before, -1, axis=1), rtol=1e-6)
    with pytest.raises(ValueError, match="is of another type than"):
        classifier.rename_class(old[1], "text")
