"""FewShotClassifier: a few photos a class, by scikit-learn's conventions."""

import warnings
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_X_y, column_or_1d, validate_data

from fewset.classify.background.comparison import Background
from fewset.classify.embedding import chosen_encoder, encoder_of, name_in_file, readable_features
from fewset.classify.labels import plain_label, rejected_label
from fewset.classify.model import EncoderStamp, Learned, learn, warn_if_not_advised
from fewset.classify.photos.labelled import opened_classes
from fewset.classify.photos.rows import PhotoRow, photo_rows
from fewset.classify.photos.sources import Photo, as_sequence, is_photos, opened_photos
from fewset.classify.photos.support import Support, group_names, support_of_photos, support_of_rows
from fewset.classify.predict.answers import Answer, Predictor, top_classes
from fewset.classify.suggest.suggestions import Suggestion, read_unlabelled, suggestions
from fewset.classify.trust.rejection import rejected_share
from fewset.core.errors import UserError, refuse_unknown
from fewset.core.progress import progress
from fewset.encoders import Encoder
from fewset.io.files import check_output

_FEW = 100  # photos that are embedded without a progress bar


class FewShotClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learns classes from a few photos each, estimates its accuracy, and rejects photos of other things.

    `X` is everywhere a folder or zip file, or a sequence of paths, Pillow images or arrays of pixels; a frame
    may have one column of paths. A 2-D float array is rows of features, whatever the encoder.

    After `fit` there are `classes_`, `n_features_in_`, `learned_` (the labelled photos and the fitted head),
    `trust_` (how far to trust it) and `skipped_` (photos that could not be read, with the reasons); with a
    background, `learned_.background.comparison` says whether FEAT pays.

    Args:
        encoder: Turns photos into features: a name, the path of a run, or an encoder itself.
        head: Learns from the features: "auto", or the name of a head of `fewset.classify.heads`.
        background: Labelled photos of many other classes of the same domain (80 other bird species, say):
            a folder with a folder a class, or a pair of photos (or rows of features) and labels. FEAT is
            trained on them, and used if it is ahead on held-out classes of the background.
        reject: None: every photo is of one of the classes. "auto": a photo unlike all labelled ones is "none
            of these" (-1 where labels are numbers), with a false-rejection rate of about 5 %; a number
            between 0 and 1 is another rate.
        device: Where the encoder computes: "auto", "cpu", "cuda", "cuda:1", "mps".
        classes_from: Which folder is the class of `birds/owl/1.jpg`: "folder" (owl), "top" (birds) or "path"
            (birds/owl). None: the innermost, and an error where that may not be meant.

    Example:
        >>> from PIL import Image
        >>> from fewset import FewShotClassifier
        >>> colours = ["red", "orange", "darkred", "blue", "navy", "royalblue"]
        >>> photos = [Image.new("RGB", (64, 64), colour) for colour in colours]
        >>> classifier = FewShotClassifier().fit(photos, ["warm"] * 3 + ["cold"] * 3)
        >>> classifier.predict([Image.new("RGB", (64, 64), "firebrick")]).tolist()
        ['warm']
        >>> classifier.save("colours.fewset")
        >>> classifier = FewShotClassifier.load("colours.fewset")
    """

    def __init__(
        self,
        encoder: str | Encoder = "auto",
        head: str = "auto",
        *,
        background: Any = None,
        reject: str | float | None = None,
        device: str = "auto",
        classes_from: str | None = None,
    ) -> None:
        self.encoder = encoder
        self.head = head
        self.background = background
        self.reject = reject
        self.device = device
        self.classes_from = classes_from

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> "FewShotClassifier":  # noqa: N803
        """Learn from labelled photos: a folder with a folder a class, or photos (or rows) and labels.

        :param groups: the group of each photo, such as an object, a burst or a source; None for a photo
            without a group. Photos of one group are left out together when the accuracy is estimated.
        """
        rejected_share(self.reject)
        new = copy(self)
        for name in ("learned_", "skipped_"):  # the encoder may have changed
            new.__dict__.pop(name, None)
        return self._become(new._learn(*new._labelled(X, y, groups, fitted=False)))

    def partial_fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        classes: Any = None,
        groups: Any = None,
    ) -> "FewShotClassifier":
        """Learn from more labelled photos; the earlier ones are not embedded again.

        New labels are new classes; where `classes` is given, labels must be among them. A photo that is there
        already, with the same label, is not added again.
        """
        fitted = hasattr(self, "learned_")
        rejected_share(self.reject)
        new = copy(self)
        support, stamp = new._labelled(X, y, groups, fitted)
        known = support.classes if classes is None else np.asarray(classes)
        unknown = np.setdiff1d(support.classes, known)
        if len(unknown):
            raise UserError(
                f"the label {plain_label(unknown[0])!r} is not among the given classes; add it to them, or "
                "correct it"
            )
        return self._become(new._learn(self._joined(support) if fitted else support, stamp))

    def add(self, photos: Any, label: Any, groups: Any = None) -> "FewShotClassifier":
        """Learn from more photos (or rows) of one class, which may be new; `groups` as in `partial_fit`."""
        check_is_fitted(self)
        new, photos = copy(self), as_sequence(photos)
        if not is_photos(photos):
            return self.partial_fit(photos, [label] * len(photos), groups=groups)
        with opened_photos(photos) as opened:
            support = new._embedded(opened, _checked([label] * len(opened)), groups, new._encoder())
        return self._become(new._learn(self._joined(support), self.learned_.encoder))

    def remove_class(self, label: Any) -> "FewShotClassifier":
        """Remove a class with its photos."""
        check_is_fitted(self)
        support = self.learned_.support
        refuse_unknown("class", label, support.classes)
        return self._keep(support.classes[support.labels] != label)

    def rename_class(self, old: Any, new: Any, merge: bool = False) -> "FewShotClassifier":
        """Give a class another label; with `merge`, that of another class, which gets its photos."""
        check_is_fitted(self)
        support = self.learned_.support
        refuse_unknown("class", old, support.classes)
        if new in support.classes and new != old and not merge:
            raise UserError(
                f"there is a class {new!r} already; choose another label, or merge the two (merge)"
            )
        return self._learn(support.renamed(old, new), self.learned_.encoder)

    def remove_photo(self, photo: int | str) -> "FewShotClassifier":
        """Remove one labelled photo, by its index or its name."""
        check_is_fitted(self)
        names = self.learned_.support.names
        chosen = np.array([photo in (number, name) for number, name in enumerate(names)])
        if chosen.sum() != 1:
            raise UserError(
                f"{chosen.sum()} labelled photos are {photo!r}, expected one; give its index, 0 to "
                f"{len(names) - 1}, or its name, one of learned_.support.names"
            )
        return self._keep(~chosen)

    def predict(self, X: Any, together: bool = False) -> np.ndarray:  # noqa: N803
        """The class of each photo, or "none of these" (see `reject`).

        With `together` the photos help to classify each other: for a whole folder, when there are few shots.
        """
        features, share = self._features(X), rejected_share(self.reject)
        answers: np.ndarray = self.classes_[self._probabilities(features, together).argmax(axis=1)]
        if share is None:
            return answers
        far = self.learned_.closeness.of(features) < self.learned_.threshold(share)
        return np.where(far, rejected_label(self.classes_), answers)

    def predict_proba(self, X: Any, together: bool = False) -> Float[np.ndarray, "m N"]:  # noqa: N803
        """The probability of each class, calibrated on the labelled photos."""
        return self._probabilities(self._features(X), together)

    def decision_function(self, X: Any) -> Float[np.ndarray, "*answers"]:  # noqa: N803
        """The logits of each class; of two classes, as in scikit-learn, the second less the first."""
        features = self._features(X)  # first, because it checks that the classifier is fitted
        logits = self.learned_.linear.logits(features)
        return logits if len(self.classes_) > 2 else logits[:, 1] - logits[:, 0]

    def predict_top(self, X: Any, k: int = 3) -> list[tuple[tuple[Any, float], ...]]:  # noqa: N803
        """The `k` likeliest classes of each photo with their probabilities, the likeliest first."""
        return top_classes(self.classes_, self.predict_proba(X), k)

    def answers(self, X: Any, top: int = 3) -> Iterator[Answer]:  # noqa: N803
        """For each photo in turn: its class, the likeliest ones, and the nearest labelled photo.

        Takes any number of photos in bounded memory. A photo that cannot be read gets the reason instead.
        """
        check_is_fitted(self)
        yield from Predictor(self.learned_, top, rejected_share(self.reject)).answers(self._rows(X))

    def suggest(self, X: Any, count: int = 20) -> list[Suggestion]:  # noqa: N803
        """The photos of `X` most worth labelling next, the most useful first, each with the reason."""
        check_is_fitted(self)
        found = read_unlabelled(self._rows(X))
        for problem in found.problems:
            warnings.warn(f"left out: {problem}", stacklevel=2)
        return suggestions(self.learned_, found, count)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:  # noqa: N803
        """The accuracy; a folder with a folder a class needs no labels."""
        if y is None and isinstance(X, str | PathLike):
            check_is_fitted(self)
            with opened_classes(X, self.classes_from) as (photos, y):
                X = readable_features(photo_rows(photos, self._encoder()))  # noqa: N806
        return float(accuracy_score(y, self.predict(X), sample_weight=sample_weight))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the classifier as one file, which holds no code: safetensors."""
        from fewset.classify.saving import save_classifier

        check_is_fitted(self)
        learned, file = self.learned_, Path(path)
        check_output(file)
        if learned.encoder is not None:
            named = name_in_file(learned.encoder.id, file.parent)
            learned = replace(learned, encoder=replace(learned.encoder, id=named))
        save_classifier(learned, rejected_share(self.reject), file)

    @classmethod
    def load(
        cls, path: str | PathLike[str], *, encoder: str | Encoder | None = None, device: str = "auto"
    ) -> "FewShotClassifier":
        """The classifier of a file.

        :param encoder: the encoder with which it was made, if that is not found under the name in the file,
            such as a directory that was moved.
        """
        from fewset.classify.saving import load_classifier

        learned, reject = load_classifier(Path(path))
        if learned.encoder is not None:
            encoder_of(learned, encoder, device)  # checks it
        name = encoder or (learned.encoder.id if learned.encoder else "auto")
        classifier = cls(name, learned.head, reject=reject, device=device)._take(learned)
        classifier.n_features_in_ = learned.support.features.shape[1]
        return classifier

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

    def _become(self, new: "FewShotClassifier") -> "FewShotClassifier":
        """Take over the state of a fitted copy, so that a failure before this changes nothing."""
        self.__dict__ = new.__dict__
        return self

    def _take(self, learned: Learned) -> "FewShotClassifier":
        self.learned_, self.classes_, self.trust_ = learned, learned.support.classes, learned.trust
        return self

    def _learn(self, support: Support, encoder: EncoderStamp | None) -> "FewShotClassifier":
        """Fit to these photos; a background that was learned before stays."""
        if rejected_share(self.reject) is not None:
            rejected_label(support.classes)  # checks that there is one
        known = self.learned_.background if hasattr(self, "learned_") else self._taught(support, encoder)
        return self._take(learn(self.head, support, encoder, known))

    def _keep(self, chosen: Bool[np.ndarray, " n"]) -> "FewShotClassifier":
        return self._learn(self.learned_.support.take(chosen), self.learned_.encoder)

    def _joined(self, support: Support) -> Support:
        """The labelled photos and those of these that are not among them."""
        unknown = support.unknown_to(self.learned_.support)
        if not unknown.all():
            warnings.warn(
                f"photos that are there already, with the same label: {(~unknown).sum()}", stacklevel=3
            )
        return self.learned_.support.joined(support.take(unknown))

    def _encoder(self) -> Encoder:
        encoder = chosen_encoder(self.encoder, self.device)
        if hasattr(self, "learned_"):
            self.learned_.check_encoder(encoder)
        return encoder

    def _labelled(
        self,
        X: Any,  # noqa: N803
        y: Any,
        groups: Any,
        fitted: bool,
    ) -> tuple[Support, EncoderStamp | None]:
        """Labelled photos or rows, and which encoder made the classifier's rows."""
        X = as_sequence(X)  # noqa: N806
        if not is_photos(X):
            rows, labels = validate_data(self, X, y, dtype=np.float32, reset=not fitted)
            support = support_of_rows(rows, _checked(labels), group_names(groups, len(rows)))
            return support, self.learned_.encoder if fitted else None
        encoder = self._encoder()
        support = self._labelled_photos(X, y, groups, encoder)
        self.n_features_in_ = support.features.shape[1]
        return support, EncoderStamp(encoder.id, encoder.digest)

    def _labelled_photos(self, X: Any, y: Any, groups: Any, encoder: Encoder) -> Support:  # noqa: N803
        if y is None and isinstance(X, str | PathLike):
            with opened_classes(X, self.classes_from) as (photos, names):
                return self._embedded(photos, names, groups, encoder)
        if y is None:
            raise UserError(
                "photos came without labels (y is None); give a label a photo, or a folder a class"
            )
        with opened_photos(X) as photos:
            return self._embedded(photos, _checked(y), groups, encoder)

    def _taught(self, support: Support, encoder: EncoderStamp | None) -> Background | None:
        """FEAT trained on the background for tasks like this one."""
        if self.background is None:
            return None
        from fewset.classify.background.training import learn_background

        given = self.background
        photos, labels = (given, None) if isinstance(given, str | PathLike) else given
        photos = as_sequence(photos)
        if is_photos(photos) and encoder is not None:
            others = self._labelled_photos(photos, labels, None, self._encoder())
        elif not is_photos(photos):
            others = support_of_rows(*check_X_y(photos, labels, dtype=np.float32))
        else:
            raise UserError(
                "the background is photos, but the classifier is fitted on rows of features; give the "
                "background as a pair of rows and labels too"
            )
        return learn_background(others, support, self.head)

    def _embedded(
        self, photos: Sequence[Photo], labels: Sequence[Any] | np.ndarray, groups: Any, encoder: Encoder
    ) -> Support:
        if len(labels) != len(photos):
            raise UserError(
                f"there are {len(photos)} photos and {len(labels)} labels, expected one for each photo"
            )
        given = [photo.group for photo in photos] if groups is None else groups
        names = group_names(given, len(photos))
        rows = []
        with progress("photos", len(photos), shown=len(photos) > _FEW) as advance:
            for group, row in zip(names, photo_rows(photos, encoder, thumbnails=True), strict=True):
                rows.append(row._replace(group=group))
                advance()
        good = [number for number, row in enumerate(rows) if not row.problem]
        skipped = [(row.name, row.problem) for row in rows if row.problem]
        self.skipped_ = [*getattr(self, "skipped_", ()), *skipped]
        for name, problem in skipped:
            warnings.warn(f"{name} was left out: {problem}", stacklevel=4)
        classes = np.asarray(labels)
        for label in sorted(set(classes.tolist()) - set(classes[good].tolist())):
            first = rows[classes.tolist().index(label)]
            raise UserError(
                f"no photo of {label!r} can be read ({first.name}: {first.problem}); replace one, or leave "
                "the class out"
            )
        return support_of_photos([rows[number] for number in good], classes[good])

    def _rows(self, X: Any) -> Iterator[PhotoRow]:  # noqa: N803
        """The rows of features, or of photos as they are embedded."""
        X = as_sequence(X)  # noqa: N806
        if not is_photos(X):
            yield from (PhotoRow(f"row {number}", row) for number, row in enumerate(self._features(X)))
            return
        with opened_photos(X) as photos:
            yield from photo_rows(photos, self._encoder())

    def _features(self, X: Any) -> Float32[np.ndarray, "m D"]:  # noqa: N803
        check_is_fitted(self)
        X = as_sequence(X)  # noqa: N806
        if not is_photos(X):
            return np.asarray(validate_data(self, X, dtype=np.float32, reset=False))
        return readable_features(self._rows(X))

    def _probabilities(
        self, features: Float32[np.ndarray, "m D"], together: bool
    ) -> Float[np.ndarray, "m N"]:
        if together:
            warn_if_not_advised(self.learned_.support.shots)
        return self.learned_.probabilities(features, together)


def _checked(given: Sequence[Any] | np.ndarray) -> np.ndarray:
    """The labels, or an error if they are measurements, or texts and something else."""
    labels: np.ndarray = column_or_1d(given, warn=True)
    other = [label for label in labels if not isinstance(label, str)] if labels.dtype == object else []
    if other and len(other) < len(labels):
        raise UserError(f"got the label {other[0]!r:.50} among texts, expected a text for each photo")
    with warnings.catch_warnings():
        # One photo a class is expected here; scikit-learn asks whether that is a regression.
        warnings.filterwarnings("ignore", message="The number of unique classes")
        check_classification_targets(labels)
    return labels
