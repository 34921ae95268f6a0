"""The classifier by scikit-learn's conventions, on photos and on rows of features."""

import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils._set_output import ADAPTERS_MANAGER

import fewset
from fewset.classify.classifier import FewShotClassifier
from fewset.classify.image_encoder import ImageEncoder
from fewset.core.errors import UserError
from tests.helpers.classifier_tasks import labelled_rows
from tests.helpers.photos import CLASSES, TinyEncoder, photo, write_photos


@pytest.mark.slow
def test_scikit_learns_own_checks() -> None:
    """All of them, in a process without the tests' type checks: one gives `__init__` values of any type."""
    program = (
        "import sys, warnings\n"
        "from sklearn.utils.estimator_checks import check_estimator\n"
        "from fewset import FewShotClassifier\n"
        "warnings.simplefilter('ignore')\n"
        "results = check_estimator(FewShotClassifier(), on_fail=None, on_skip=None)\n"
        "failed = [f\"{r['check_name']}: {r['exception']}\" for r in results if r['status'] == 'failed']\n"
        "passed = [r for r in results if r['status'] == 'passed']\n"
        "sys.exit('; '.join(failed) if failed or len(passed) < 50 else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_photos(tmp_path / "photos")


@pytest.fixture
def fitted(folder: Path) -> FewShotClassifier:
    return FewShotClassifier(TinyEncoder()).fit(folder)


def test_a_folder_paths_images_and_arrays_are_one(folder: Path) -> None:
    paths = sorted(folder.rglob("*.png"))
    labels = [path.parent.name for path in paths]
    images = [Image.open(path) for path in paths]
    queries = [photo(label, 7) for label in CLASSES]
    kinds = {
        "folder": (folder, None),
        "text": (str(folder), None),
        "paths": (paths, labels),
        "names": (np.array([str(path) for path in paths]), labels),
        "images": (images, labels),
        "arrays": ([np.asarray(image) for image in images], labels),
        "array": (np.stack([np.asarray(image) for image in images]), labels),
        "rows": (TinyEncoder()(images), labels),
    }
    expected = None
    for kind, (X, y) in kinds.items():  # noqa: N806
        classifier = FewShotClassifier(TinyEncoder()).fit(X, y)
        assert classifier.classes_.tolist() == sorted(CLASSES)
        rows = queries if kind != "rows" else TinyEncoder()(queries)
        found = classifier.predict_proba(rows)
        assert classifier.predict(rows).tolist() == list(CLASSES)
        expected = found if expected is None else expected
        np.testing.assert_array_equal(found, expected, err_msg=kind)


def test_a_zip_file_is_a_folder(folder: Path, fitted: FewShotClassifier, tmp_path: Path) -> None:
    zipped = shutil.make_archive(str(tmp_path / "photos"), "zip", folder)
    again = FewShotClassifier(TinyEncoder()).fit(zipped)
    np.testing.assert_array_equal(again.predict_proba(folder), fitted.predict_proba(folder))
    assert again.score(zipped) == fitted.score(folder) == 1.0


def test_adding_and_removing_is_fitting_on_the_result() -> None:
    X, y = labelled_rows(1)  # noqa: N806
    whole = FewShotClassifier().fit(X, y)
    parts = FewShotClassifier().partial_fit(X[y < 2], y[y < 2]).partial_fit(X[y == 2], y[y == 2])
    added = FewShotClassifier().fit(X[y < 2], y[y < 2]).add(X[y == 2], 2)
    for classifier in (parts, added):
        np.testing.assert_allclose(classifier.predict_proba(X), whole.predict_proba(X), atol=1e-12)
    removed = whole.remove_class(1).predict_proba(X)
    np.testing.assert_allclose(removed, FewShotClassifier().fit(X[y != 1], y[y != 1]).predict_proba(X))
    fewer = FewShotClassifier().fit(X, y).remove_photo(4).predict_proba(X)
    others = np.arange(len(y)) != 4
    np.testing.assert_allclose(fewer, FewShotClassifier().fit(X[others], y[others]).predict_proba(X))


def test_photos_from_before_are_not_embedded_again(folder: Path) -> None:
    seen: list[int] = []

    class Counting(TinyEncoder):
        def __call__(self, images: list[Image.Image]) -> np.ndarray:  # type: ignore[override]
            seen.append(len(images))
            return super().__call__(images)

    classifier = FewShotClassifier(Counting()).fit(folder)
    assert seen == [12]
    classifier.add([photo("grass", 9)], "meadow")
    classifier.partial_fit([photo("brick", 9)], ["brick"])
    classifier.remove_class("meadow").remove_photo(str(Path("brick") / "1.png"))
    assert seen == [12, 1, 1]
    assert classifier.learned_.support.shots.tolist() == [4, 4, 4]
    assert classifier.learned_.support.names[-1] == "photo 0"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda c: c.remove_class("sea"), "unknown class 'sea'"),
        (lambda c: c.remove_photo("sea.png"), "0 labelled photos are 'sea.png'"),
        (lambda c: c.remove_class("brick").remove_class("grass"), "photos of 1 class"),
        (lambda c: c.add([photo("brick", 1)], 3), "all labels as text"),
        (lambda c: c.partial_fit([photo("brick", 1)], ["sea"], classes=["brick"]), "'sea' is not among"),
        (lambda c: c.partial_fit([photo("brick", 1)]), "without labels"),
        (lambda c: c.predict(photo("brick", 1)), "put it into a list"),
        (lambda c: c.predict([np.zeros((4, 4, 3))]), "float64 of shape"),
        (lambda c: c.predict("nowhere"), "nowhere does not exist"),
        (lambda c: c.predict(["nowhere.png"]), "1 of 1 photos cannot be read"),
        (lambda c: c.set_params(reject=2.0).predict([photo("brick", 1)]), "reject is 2.0"),
        (lambda c: c.predict_top([photo("brick", 9)], k=0), "1 or more"),
        (
            lambda c: c.set_params(encoder=TinyEncoder(digest="e2" * 32)).predict([photo("brick", 1)]),
            "another",
        ),
        (lambda c: c.set_params(head="rigde").add([photo("brick", 1)], "brick"), "unknown classifier head"),
        (lambda c: c.add([photo("brick", 1)], "a\x1b[2J"), "printable"),
        (lambda c: c.add([photo("brick", 1)], "none of these"), "of no class"),
    ],
)
def test_mistakes_are_told(fitted: FewShotClassifier, spoil: object, message: str) -> None:
    before = fitted.learned_
    with pytest.raises(UserError, match=message) as caught:
        spoil(fitted)  # type: ignore[operator]
    assert "\n" not in str(caught.value)
    if "class" not in message:
        assert fitted.learned_ is before  # nothing half done


def test_mistakes_of_fitting_are_told(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        FewShotClassifier().predict([[1.0]])
    with pytest.raises(NotFittedError):
        next(FewShotClassifier().answers(folder))
    write_photos(tmp_path / "split" / "train")
    with pytest.raises(UserError, match=r"has splits.*take one of them: .*train"):
        FewShotClassifier(TinyEncoder()).fit(tmp_path / "split")
    with pytest.raises(UserError, match=r"absent does not exist; expected .* a CSV file"):
        FewShotClassifier(TinyEncoder()).fit(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no photos in"):
        FewShotClassifier(TinyEncoder()).fit(tmp_path / "empty")
    with pytest.raises(UserError, match="reject is 'yes'"):
        FewShotClassifier(TinyEncoder(), reject="yes").fit(folder)
    on_rows = FewShotClassifier(TinyEncoder()).fit(*labelled_rows(1))
    with pytest.raises(UserError, match="fitted on rows of features and cannot read photos"):
        on_rows.predict(folder)


def test_bad_photos_are_left_out_of_a_fit_and_rows_of_the_answers(folder: Path) -> None:
    (folder / "grass" / "broken.jpg").write_bytes(b"no image")
    with pytest.warns(UserWarning, match="broken.jpg was left out: not an image"):
        classifier = FewShotClassifier(TinyEncoder()).fit(folder)
    assert [name for name, _ in classifier.skipped_] == ["grass/broken.jpg"]
    assert classifier.learned_.support.shots.tolist() == [4, 4, 4]
    answers = list(classifier.answers(folder))
    assert len(answers) == 13
    (bad,) = [answer for answer in answers if answer.problem]
    assert bad.name == "grass/broken.jpg"
    assert bad.label is None
    assert all(answer.label == answer.name.split("/")[0] for answer in answers if not answer.problem)
    for path in (folder / "grass").iterdir():
        path.write_bytes(b"no image")
    with (
        warnings.catch_warnings(action="ignore"),
        pytest.raises(UserError, match=r"'grass' .*\.png: not an image"),
    ):
        FewShotClassifier(TinyEncoder()).fit(folder)


def test_an_answer_has_its_reason(fitted: FewShotClassifier, folder: Path) -> None:
    names = fitted.learned_.support.names
    for answer in fitted.answers([folder / "brick" / "2.png", folder / "grass" / "0.png"], top=2):
        place = Path(answer.name)
        assert answer.nearest_name == f"{place.parent.name}/{place.name}" == names[answer.nearest]
        assert 0.8 < answer.closeness < 1  # its cosine is 1, the value of the regression is less
        assert len(answer.top) == 2
        assert answer.top[0] == (answer.label, answer.probability)
    (row,) = fitted.answers(TinyEncoder()([photo("brick", 9)]))
    assert row.name == "row 0"
    assert row.label == "brick"


def test_none_of_these(fitted: FewShotClassifier) -> None:
    strange = [Image.new("RGB", (40, 32), colour) for colour in ("black", "white", "magenta")]
    known = [photo(label, seed) for label in CLASSES for seed in range(20, 30)]
    assert set(fitted.predict(strange)) <= set(CLASSES)
    fitted.set_params(reject="auto")
    assert (fitted.predict(strange) == "none of these").all()
    assert (fitted.predict(known) != "none of these").mean() > 0.7
    for answer in fitted.answers(strange):
        assert answer.label == "none of these"
        assert np.isnan(answer.probability), "that of a class would contradict the label"
    numbers = FewShotClassifier(reject=0.01).fit(*labelled_rows(1))
    assert numbers.predict(-labelled_rows(2)[0]).tolist() == [-1] * 12


def test_in_a_pipeline_a_grid_and_cross_validation(folder: Path) -> None:
    paths = sorted(str(path) for path in folder.rglob("*.png"))
    labels = np.array([Path(path).parent.name for path in paths])
    pipeline = make_pipeline(ImageEncoder(TinyEncoder()), FewShotClassifier())
    assert pipeline.fit(paths, labels).score(paths, labels) == 1.0
    whole = FewShotClassifier(TinyEncoder())
    np.testing.assert_allclose(
        pipeline.predict_proba(paths), clone(whole).fit(paths, labels).predict_proba(paths), atol=1e-12
    )
    assert cross_val_score(whole, paths, labels, cv=2).mean() > 0.9
    grid = GridSearchCV(whole, {"head": ["ridge", "centroid"]}, cv=2).fit(paths, labels)
    assert grid.best_params_["head"] in ("ridge", "centroid")
    copy = clone(whole)
    assert copy.get_params() == whole.get_params()


def test_one_column_of_paths(tmp_path: Path) -> None:
    """As `frame[["path"]]` of pandas, or what a step of a pipeline gives."""
    paths = sorted(str(path) for path in write_photos(tmp_path).rglob("*.png"))
    labels = [Path(path).parent.name for path in paths]
    column = np.array(paths, dtype=object)[:, None]
    expected = FewShotClassifier(TinyEncoder()).fit(paths, labels).predict_proba(paths)
    found = FewShotClassifier(TinyEncoder()).fit(column, labels).predict_proba(column.astype(str))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(
        ImageEncoder(TinyEncoder()).transform(column), ImageEncoder(TinyEncoder()).transform(paths)
    )


def test_the_columns_of_features_have_names() -> None:
    """`set_output` gives them to a frame, here of a library made up for the test."""

    class Frames:
        container_lib = "frames"

        def create_container(self, values: Any, _: Any, columns: Any) -> Any:
            return {"names": list(columns()), "values": values}

    step = ImageEncoder(TinyEncoder())
    assert step.get_feature_names_out().tolist() == [f"imageencoder{column}" for column in range(96)]
    photos = [photo("grass", 0), photo("brick", 1)]
    expected = step.transform(photos)
    ADAPTERS_MANAGER.register(Frames())
    try:
        frame = step.set_output(transform="frames").transform(photos)
    finally:
        del ADAPTERS_MANAGER.adapters["frames"]
    assert frame["names"] == step.get_feature_names_out().tolist()
    np.testing.assert_array_equal(frame["values"], expected)


@pytest.mark.parametrize("shots", [(3, 4), (3, 4, 5)])
def test_decision_function(shots: tuple[int, ...]) -> None:
    """The softmax of the logits is what `predict_proba` gives; with two classes there is one number a row."""
    rows, labels = labelled_rows(0, shots)
    classifier = FewShotClassifier().fit(rows, labels)
    decision, expected = classifier.decision_function(rows), classifier.predict_proba(rows)
    if len(shots) == 2:
        decision = np.stack([np.zeros(len(rows)), decision], axis=1)
    np.testing.assert_allclose(softmax(decision, axis=1), expected, atol=1e-12)


def test_together_helps_with_one_shot_and_is_not_advised_with_five() -> None:
    generator = np.random.default_rng(0)
    means = generator.exponential(size=(5, 101))
    labels = np.repeat(np.arange(5), 40)
    X = np.maximum(means[labels] + generator.normal(scale=2.0, size=(200, 101)), 0).astype(np.float32)  # noqa: N806
    shots = np.arange(200) % 40 == 0
    classifier = FewShotClassifier().fit(X[shots], labels[shots])
    alone = (classifier.predict(X) == labels).mean()
    assert (classifier.predict(X, together=True) == labels).mean() > alone + 0.05
    several = np.arange(200) % 40 < 5
    classifier.fit(X[several], labels[several])
    with pytest.warns(UserWarning, match="not advised with 5 photos a class"):
        classifier.predict_proba(X, together=True)


def test_embed(folder: Path) -> None:
    paths = sorted(folder.rglob("*.png"))
    expected = TinyEncoder()([Image.open(path) for path in paths])
    np.testing.assert_array_equal(fewset.embed(folder, TinyEncoder()), expected)
    np.testing.assert_array_equal(fewset.embed(paths, TinyEncoder()), expected)
    np.testing.assert_array_equal(fewset.embed(paths[3], TinyEncoder()), expected[3:4])
    assert expected.dtype == np.float32
    paths[1].write_bytes(b"")
    with pytest.raises(UserError, match=r"1 of 12 photos cannot be read \(.*1.png: empty file\)"):
        fewset.embed(paths, TinyEncoder())


@pytest.mark.parametrize("kind", [np.int8, np.uint64])
def test_every_kind_of_whole_numbers_can_say_none_of_these(kind: type, tmp_path: Path) -> None:
    X, y = labelled_rows(1)  # noqa: N806
    classifier = FewShotClassifier(reject=0.01).fit(X, np.array([3, 7, 100], dtype=kind)[y])
    classifier.save(tmp_path / "c.fewset")
    for each in (classifier, FewShotClassifier.load(tmp_path / "c.fewset")):
        found = each.predict(-X)
        assert found.tolist() == [-1] * len(X)
        assert found.dtype == each.classes_.dtype == np.int64
        assert [answer.label for answer in each.answers(-X)] == [-1] * len(X)


@pytest.mark.parametrize(
    "names",
    [np.array([-1, 0, 1]), np.array([True, False, False]), np.arange("2026-01", "2026-04", dtype="M8[M]")],
)
def test_labels_that_cannot_say_none_of_these(names: np.ndarray) -> None:
    X, y = labelled_rows(1)  # noqa: N806
    with pytest.raises(UserError, match="none of these"):
        FewShotClassifier(reject="auto").fit(X, names[y])
    classifier = FewShotClassifier().fit(X, names[y])
    assert (classifier.predict(X) == names[y]).mean() > 0.5
    classifier.set_params(reject="auto")
    with pytest.raises(UserError, match="none of these"):
        classifier.predict(X)
    with pytest.raises(UserError, match="none of these"):
        list(classifier.answers(X))


@pytest.mark.parametrize("label", [None, float("nan"), 1.5, ["a", "b"]])
def test_a_class_that_is_added_is_checked_as_any_other(label: Any) -> None:
    X, y = labelled_rows(1)  # noqa: N806
    for names in (y, y.astype(str)):
        with pytest.raises(ValueError, match=r"label|y "):
            FewShotClassifier().fit(X, names).add(X[:2], label)


def test_texts_are_labels_of_one_kind_whatever_array_holds_them() -> None:
    """A table of pandas has them as objects."""
    X, y = labelled_rows(1)  # noqa: N806
    names = np.array(["ant", "bee", "crow"])[y]
    for first, second in ((names, names.astype(object)), (names.astype(object), names)):
        classifier = FewShotClassifier().fit(X, first).partial_fit(X, second)
        assert classifier.classes_.tolist() == ["ant", "bee", "crow"]
    for missing in (None, float("nan")):
        with pytest.raises(ValueError, match=r"among texts|NaN"):
            FewShotClassifier().fit(X, np.where(y == 1, np.array(missing, dtype=object), names))


def test_labels_beyond_int64_are_refused() -> None:
    X, y = labelled_rows(1)  # noqa: N806
    with pytest.raises(UserError, match="below 2\\^63"):
        FewShotClassifier().fit(X, np.array([1, 2, 2**63], dtype=np.uint64)[y])


def test_an_iterator_loses_no_photo(folder: Path) -> None:
    paths = sorted(folder.rglob("*.png"))
    labels = [path.parent.name for path in paths]
    classifier = FewShotClassifier(TinyEncoder()).fit(iter(paths), labels)
    assert classifier.learned_.support.shots.tolist() == [4, 4, 4]
    assert classifier.predict(iter(paths)).tolist() == labels
    assert classifier.score(iter(paths), labels) == 1
    assert [answer.name for answer in classifier.answers(iter(paths))] == [str(path) for path in paths]
    assert len(fewset.embed(iter(paths), TinyEncoder())) == 12
    classifier.partial_fit((photo("brick", seed) for seed in (8, 9)), ["brick"] * 2)
    classifier.add((photo("brick", seed) for seed in (10, 11)), "wall")
    assert classifier.learned_.support.shots.tolist() == [4, 6, 4, 2]


def test_thumbnails_are_made_only_where_they_are_kept(
    fitted: FewShotClassifier, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_thumbnail", "fingerprint"):
        monkeypatch.setattr(f"fewset.classify.photos.rows.{name}", lambda _: pytest.fail("for nothing"))
    fitted.predict(folder)
    fitted.score(folder)
    list(fitted.answers(folder))
    fewset.embed(folder, TinyEncoder())


def test_a_pattern_that_matches_no_photo_is_an_error(fitted: FewShotClassifier, tmp_path: Path) -> None:
    for ask in (
        lambda photos: fitted.fit(photos, []),
        lambda photos: fitted.add(photos, "brick"),
        fitted.predict,
        lambda photos: fewset.embed(photos, TinyEncoder()),
    ):
        with pytest.raises(UserError, match="no photos"):
            ask(tmp_path.glob("*.nothing"))


@pytest.mark.parametrize("refit", ["fit", "partial_fit"])
def test_a_failed_refit_changes_nothing(fitted: FewShotClassifier, folder: Path, refit: str) -> None:
    broken = folder / "broken.jpg"
    broken.write_bytes(b"no image")
    before = dict(vars(fitted))
    with warnings.catch_warnings(action="ignore"), pytest.raises(UserError, match="of no class"):
        getattr(fitted, refit)(
            [photo("brick", 9), photo("grass", 9), broken], ["brick", "none of these", "brick"]
        )
    assert vars(fitted) == before
    assert fitted.predict([photo("brick", 9)]).tolist() == ["brick"]


def test_an_image_without_pixels_is_left_out(fitted: FewShotClassifier) -> None:
    empty = Image.new("RGB", (0, 0))
    with pytest.warns(UserWarning, match="left out: the image has no pixels"):
        fitted.add([photo("brick", 9), empty], "brick")
    with pytest.raises(UserError, match="has no pixels"):
        fitted.predict([empty])
