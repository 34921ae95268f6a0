"""Suggestions with their reasons, from photos and from rows."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fewset.classify.classifier import FewShotClassifier
from fewset.classify.suggest.page import suggestions_page
from fewset.core.errors import UserError
from tests.helpers.classifier_tasks import labelled_rows
from tests.helpers.photos import CLASSES, TinyEncoder, photo, write_photos


@pytest.fixture
def fitted(tmp_path: Path) -> FewShotClassifier:
    return FewShotClassifier(TinyEncoder()).fit(write_photos(tmp_path / "photos"))


def mixture(seed: int) -> Image.Image:
    """Half grass, half brick."""
    return Image.blend(photo("grass", seed), photo("brick", seed), 0.5)


def noise(seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (40, 40, 3), dtype=np.uint8))


def test_a_doubtful_photo_comes_first_and_its_classes_are_the_reason(fitted: FewShotClassifier) -> None:
    photos = [photo(label, seed) for label in CLASSES for seed in range(40, 44)]
    photos.insert(5, mixture(1))
    photos += [mixture(seed) for seed in (2, 3)]
    found = fitted.suggest(photos, count=4)
    assert {found[0].index} <= {5, 13, 14}
    top = found[0].answer.top
    assert {label for label, _ in top} == {"grass", "brick"}
    assert found[0].reason in (
        " or ".join(f"{label} {100 * share:.0f} %" for label, share in top),
        "unlike all labelled photos: a new class?",
    )
    assert [each.answer.name for each in found] == [each.name for each in found]
    assert len({each.index for each in found}) == 4


def test_a_new_class_is_none_of_these(fitted: FewShotClassifier) -> None:
    photos = [photo(label, seed) for label in CLASSES for seed in range(40, 44)] + [noise(1), noise(2)]
    found = fitted.suggest(photos, count=len(photos))
    rejected = fitted.set_params(reject="auto").predict(photos) == "none of these"
    assert rejected[-2:].all()
    assert {each.index for each in found if each.new_class} == set(np.flatnonzero(rejected))
    assert all(("a new class?" in each.reason) is each.new_class for each in found)


def test_the_order_of_the_photos_does_not_matter(fitted: FewShotClassifier) -> None:
    photos = [photo(label, seed) for label in CLASSES for seed in range(20, 34)]
    expected = [each.index for each in fitted.suggest(photos, count=6)]
    order = np.random.default_rng(0).permutation(len(photos))
    found = fitted.suggest([photos[each] for each in order], count=6)
    assert [order[each.index] for each in found] == expected


def test_unreadable_photos_are_left_out(fitted: FewShotClassifier, tmp_path: Path) -> None:
    folder = write_photos(tmp_path / "inbox", 2, first=50)
    (folder / "a broken one.jpg").write_bytes(b"nonsense")
    with pytest.warns(UserWarning, match=r"left out: .*a broken one\.jpg"):
        found = fitted.suggest(folder, count=3)
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert [names[each.index] for each in found] == [each.name for each in found]
    with pytest.raises(UserError, match="none of the 1 photos can be read"):
        fitted.suggest([folder / "a broken one.jpg"])


def test_rows_of_features_and_numbers_as_labels() -> None:
    rows, labels = labelled_rows(1)
    classifier = FewShotClassifier().fit(rows, labels - 1)  # -1 is a class here, not "none of these"
    found = classifier.suggest(labelled_rows(2)[0], count=3)
    assert [each.name for each in found] == [f"row {each.index}" for each in found]
    assert not any(each.new_class for each in found)


@pytest.mark.parametrize("count", [0, 4001])
def test_the_number_of_photos_has_bounds(count: int) -> None:
    classifier = FewShotClassifier().fit(*labelled_rows(1))
    with pytest.raises(UserError, match=r"expected 1 to 4,000"):
        classifier.suggest(labelled_rows(2)[0], count=count)


def test_the_page_escapes_names_and_needs_no_other_file(fitted: FewShotClassifier, tmp_path: Path) -> None:
    name = tmp_path / "<b>&'quote' ü.png"
    photo("grass", 77).save(name)
    noise(1).save(tmp_path / "noise.png")
    found = sorted(fitted.suggest([name, tmp_path / "noise.png"], count=2), key=lambda each: each.index)
    page = suggestions_page("2 photos <i>", found, [b"\xff\xd8one", b""])
    assert "<b>" not in page
    assert "<i>" not in page
    assert "&lt;b&gt;&amp;&#39;quote&#39; ü.png" in page
    assert name.as_uri().replace("'", "&#39;") in page
    assert page.count("<img ") == 1
    assert 'src="data:image/jpeg;base64,/9hvbmU="' in page
    assert "http" not in page.replace('http-equiv="', "")
    assert page.index("quote") < page.index("a new class?") < page.index("noise.png")
