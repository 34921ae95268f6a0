"""Photos of one object, burst or source: left out together, wherever the classifier is examined."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewset.classify.card import summary
from fewset.classify.classifier import FewShotClassifier
from fewset.classify.heads import find_classifier_head
from fewset.classify.photos.support import group_names
from fewset.classify.serve.workbench import Workbench
from fewset.classify.trust.calibration import left_out_interval
from fewset.classify.trust.copies import numbered_groups
from fewset.core.errors import UserError
from tests.helpers.classifier_tasks import labelled_rows, left_out_by_refitting
from tests.helpers.photos import CLASSES, TinyEncoder, write_photos

SHOTS = (8, 6, 7)


def noisy_rows(shots: tuple[int, ...] = SHOTS) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows that are not easy to tell apart, their labels, and groups of two by two of a class."""
    X, y = labelled_rows(3, shots, dim=5)  # noqa: N806
    noise = np.random.default_rng(0).exponential(0.8, size=X.shape).astype(np.float32)
    groups = [100 * label + np.arange(count) // 2 for label, count in enumerate(shots)]
    return X + noise, y, np.concatenate(groups)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["", "a", "b", "c"]), st.integers(0, 6)), min_size=1, max_size=9))
def test_groups_and_copies_are_joined(photos: list[tuple[str, int]]) -> None:
    groups, copies = zip(*photos, strict=True)
    found = numbered_groups(groups, np.unique(copies, return_inverse=True)[1])
    joined = np.array([[a == b or (g == h != "") for b, h in zip(copies, groups, strict=True)]
                       for a, g in zip(copies, groups, strict=True)])  # fmt: skip
    reached = np.linalg.matrix_power(joined.astype(np.int64), len(photos)) > 0
    np.testing.assert_array_equal(found[:, None] == found, reached)


def test_groups_are_texts_numbers_or_nothing() -> None:
    assert group_names(None, 2) == ("", "")
    assert group_names(np.array([3, 12]), 2) == ("3", "12")
    assert group_names(["a", None, float("nan"), ""], 4) == ("a", "", "", "")
    with pytest.raises(UserError, match="3 photos and 2 groups, expected one for each"):
        group_names(["a", "b"], 3)


@pytest.mark.parametrize("head", ["auto", "centroid"])
def test_leave_one_group_out_is_that_of_new_fits(head: str) -> None:
    learned = FewShotClassifier(head=head).fit(*noisy_rows()).learned_
    trust, ordered = learned.trust, learned.support.take(learned.support.order)
    together = numbered_groups(ordered.groups, np.arange(21))
    expected = left_out_by_refitting(find_classifier_head(head), ordered.features, ordered.labels, together)
    right = int((expected.argmax(axis=1) == ordered.labels).sum())
    assert (trust.tested, trust.right, trust.groups) == (21, right, 11)
    assert 2 / 3 <= trust.left <= 3 / 4  # 3 or 4 groups a class
    low, high = left_out_interval(right, 21, 11, trust.left)
    assert (
        f"{100 * low:.0f} to {100 * high:.0f} % (95 % interval, leave-one-group-out on 21" in trust.in_words
    )


def test_the_threshold_does_not_see_photos_of_the_same_group() -> None:
    X, y, groups = noisy_rows()  # noqa: N806
    expected = []
    for number in range(len(y)):
        others = groups != groups[number]
        alone = FewShotClassifier().fit(X[others], y[others]).learned_.closeness
        expected.append(alone.of(X[[number]])[0])
    assert FewShotClassifier().fit(X, y, groups).trust_.closeness == pytest.approx(sorted(expected))


def test_photos_of_one_group_do_not_vouch_for_each_other() -> None:
    """Noise in pairs that are alike: a photo is known by its other half, and by nothing else."""
    generator = np.random.default_rng(0)
    pairs = generator.exponential(size=(60, 211)).repeat(2, axis=0)
    X = (pairs + generator.exponential(0.2, size=pairs.shape)).astype(np.float32)  # noqa: N806
    y, groups = np.arange(120) // 2 % 3, np.arange(120) // 2
    alone, grouped = (FewShotClassifier().fit(X, y, each).trust_ for each in (None, groups))
    assert alone.right >= 115
    assert grouped.right <= 60
    assert grouped.temperature > 2 * alone.temperature


def test_a_group_may_be_of_several_classes() -> None:
    """Three cameras took all photos: each is left out as a whole."""
    X, y, _ = noisy_rows((3, 3, 3))  # noqa: N806
    cameras = np.tile(["left", "right", "top"], 3)
    right = 0
    for camera in ("left", "right", "top"):
        out = cameras == camera
        right += int((FewShotClassifier().fit(X[~out], y[~out]).predict(X[out]) == y[out]).sum())
    trust = FewShotClassifier().fit(X, y, cameras).trust_
    assert (trust.tested, trust.right, trust.groups) == (9, right, 3)


def test_classes_with_one_or_two_groups_are_not_counted() -> None:
    X, y = labelled_rows(1, (6, 6, 6))  # noqa: N806
    groups = [f"{label} {number % (2 if label == 1 else 3)}" for number, label in enumerate(y)]
    learned = FewShotClassifier().fit(X, y, groups).learned_
    assert (learned.trust.tested, learned.trust.untested, learned.trust.weakest) == (12, (1,), 1)
    assert "not tested, with fewer than 3 different groups: 1" in summary(learned)
    learned = FewShotClassifier().fit(X, y, y).learned_
    assert (learned.trust.interval, learned.trust.calibrated, learned.trust.closeness) == (None, False, ())
    assert "leave-one-group-out needs 3 different groups" in summary(learned)[0]


def test_adding_removing_and_saving_keep_the_groups(tmp_path: Path) -> None:
    X, y, groups = noisy_rows()  # noqa: N806
    whole = FewShotClassifier().fit(X, y, groups)
    whole.save(tmp_path / "whole.fewset")
    loaded = FewShotClassifier.load(tmp_path / "whole.fewset")
    assert loaded.learned_.support.groups == tuple(map(str, groups))
    assert loaded.trust_ == whole.trust_
    half = np.arange(21) % 2 == 0  # every group is torn apart
    parts = FewShotClassifier().partial_fit(X[half], y[half], groups=groups[half])
    parts.partial_fit(X[~half], y[~half], groups=groups[~half])
    assert (parts.trust_.right, parts.trust_.groups) == (whole.trust_.right, 11)
    added = FewShotClassifier().fit(X[y < 2], y[y < 2], groups[y < 2])
    added.add(X[y == 2], 2, groups[y == 2])
    assert added.trust_ == whole.trust_
    others = np.arange(21) != 4
    fewer = FewShotClassifier().fit(X[others], y[others], groups[others])
    assert loaded.remove_photo(4).trust_ == fewer.trust_


def test_photos_and_a_folder_have_groups_and_the_page_keeps_them(tmp_path: Path) -> None:
    folder = write_photos(tmp_path / "photos", shots=6)
    groups = [f"{label} {number // 2}" for label in sorted(CLASSES) for number in range(6)]
    (folder / "brick" / "3.png").write_bytes(b"broken")
    classifier = FewShotClassifier(TinyEncoder())
    with pytest.warns(UserWarning, match=r"3\.png was left out"):
        classifier.fit(folder, groups=groups)  # photos of a folder are sorted by path
    kept = tuple(group for number, group in enumerate(groups) if number != 9)
    assert classifier.learned_.support.groups == kept
    assert classifier.trust_.groups == 9
    support = Workbench(classifier.learned_.encoder, classifier.learned_, None).moment().album.support()
    assert support is not None
    assert support.groups == kept
    with pytest.raises(UserError, match="18 photos and 2 groups"):
        classifier.fit(folder, groups=["a", "b"])
