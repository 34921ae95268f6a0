"""The responses of the HTTP interface, as openapi.json describes them."""

from math import isfinite

import numpy as np
from pydantic import BaseModel, Field

from fewset.classify.heads import prepared, unit_rows
from fewset.classify.labels import plain_label
from fewset.classify.predict.answers import Answer
from fewset.classify.serve.workbench import Moment
from fewset.evaluation.principal_plane import principal_plane


class Problem(BaseModel):
    detail: str


class PhotoShown(BaseModel):
    number: int
    name: str


class Skipped(BaseModel):
    name: str
    problem: str


class Added(BaseModel):
    photos: list[PhotoShown]
    skipped: list[Skipped]


class ClassShown(BaseModel):
    name: str
    photos: list[PhotoShown]


class ConfusionShown(BaseModel):
    label: str
    taken_for: str
    photos: int


class SuspectShown(BaseModel):
    photo: int
    label: str
    looks_like: str
    probability: float


class TrustShown(BaseModel):
    """How far to trust the classifier. Photos are given by their numbers."""

    in_words: str
    occasions: str | None = Field(
        description="How many occasions the photos are of, with a warning where most classes have one; null "
        "where that is unknown."
    )
    tested: int
    right: int
    low: float | None = Field(description="The accuracy on new photos like these, 95 % interval.")
    high: float | None
    untested: list[str] = Field(description="Classes with too few photos to be tested.")
    least: str = Field(description="What a class needs to be tested.")
    confusions: list[ConfusionShown]
    suspects: list[SuspectShown]
    copies: list[list[int]]
    weakest: str = Field(description="The class that another photo would help most.")


class State(BaseModel):
    revision: int
    encoder: str
    head: str
    classes: list[ClassShown]
    share: float | None = Field(description="The allowed false-rejection rate; null: nothing is rejected.")
    usual_share: float = Field(description="The rate to set when rejection is switched on again.")
    can_reject: bool = Field(description="Whether the classifier can find a photo to be none of these.")
    trust: TrustShown | None = Field(
        description="null as long as fewer than two classes have photos, and while it is learning."
    )
    learning: bool = Field(description="Whether the classifier is still learning from the last change.")
    undo: str | None
    waiting: int = Field(description="Photos that are being embedded.")
    downloads: dict[str, str] = Field(description="The title of each download.")


class EarlierWork(BaseModel):
    file: str
    saved: str
    classes: list[str]
    photos: int


class ProjectShown(BaseModel):
    """The file that the work is saved to."""

    file: str
    saved_at: float | None = Field(description="Seconds since 1970; null: not in this session.")
    unsaved: bool = Field(description="Whether there are changes that are not in the file.")
    problem: str = Field(description="Why it could not be saved.")


class Reason(PhotoShown):
    label: str


class AnswerShown(BaseModel):
    number: int | None = Field(description="Of a photo that is kept.")
    name: str
    label: str | None = Field(description="The likeliest class, also of a photo that is none of these.")
    none_of_these: bool
    probability: float | None
    top: list[tuple[str, float]] = Field(description="The likeliest classes with their probabilities.")
    closeness: float | None
    reason: Reason | None = Field(description="The nearest labelled photo.")
    problem: str
    taught: str | None = Field(description="The class that the photo was put into.")


class Answers(BaseModel):
    revision: int
    answers: list[AnswerShown]


Place = tuple[float, float]


class PhotoPlace(BaseModel):
    number: int
    place: Place


class PrototypePlaces(BaseModel):
    label: str
    before: Place = Field(description="The mean of the class.")
    after: Place = Field(description="The prototype as the head has adapted it to the other classes.")


class Projection(BaseModel):
    """Places on the plane on which the photos differ most (principal components)."""

    shown: float = Field(description="The share of the photos' variance that the plane shows.")
    photos: list[PhotoPlace]
    prototypes: list[PrototypePlaces]


def trust_shown(moment: Moment) -> TrustShown | None:
    """How far to trust the classifier, with the names of classes and the numbers of photos."""
    if moment.learned is None:
        return None
    trust, photos = moment.learned.trust, moment.album.photos
    names = [str(plain_label(label)) for label in moment.learned.support.classes]
    low, high = trust.interval or (None, None)
    return TrustShown(
        in_words=trust.in_words,
        occasions=trust.occasions_in_words,
        tested=trust.tested,
        right=trust.right,
        low=low,
        high=high,
        untested=[names[label] for label in trust.untested],
        least=trust.least,
        confusions=[
            ConfusionShown(label=names[each.label], taken_for=names[each.taken_for], photos=each.photos)
            for each in trust.confusions
        ],
        suspects=[
            SuspectShown(
                photo=photos[each.photo].number,
                label=photos[each.photo].label,
                looks_like=names[each.looks_like],
                probability=each.probability,
            )
            for each in trust.suspects
        ],
        copies=[[photos[place].number for place in group] for group in trust.copies],
        weakest=names[trust.weakest],
    )


def classes_shown(moment: Moment) -> list[ClassShown]:
    photos: dict[str, list[PhotoShown]] = {name: [] for name in moment.album.classes}
    for photo in moment.album.photos:
        photos[photo.label].append(PhotoShown(number=photo.number, name=photo.row.name))
    return [ClassShown(name=name, photos=own) for name, own in photos.items()]


def answer_shown(moment: Moment, answer: Answer, number: int | None) -> AnswerShown:
    """One answer, with the nearest labelled photo as it is in the album."""
    nearest = moment.album.photos[answer.nearest] if answer.nearest >= 0 else None
    kept = moment.album.by_number.get(number) if number is not None else None
    label = str(answer.top[0][0]) if answer.top else None
    return AnswerShown(
        number=number,
        name=answer.name,
        label=label,
        none_of_these=label is not None and str(answer.label) != label,
        probability=answer.probability if isfinite(answer.probability) else None,
        top=[(str(each), probability) for each, probability in answer.top],
        closeness=answer.closeness if isfinite(answer.closeness) else None,
        reason=nearest and Reason(number=nearest.number, name=nearest.row.name, label=nearest.label),
        problem=answer.problem,
        taught=kept.label if kept else None,
    )


def projection(moment: Moment) -> Projection:
    """The labelled photos on a plane, with the prototypes before and after adaptation.

    All are drawn in the space in which the head compares: rows prepared, shifted, at length 1. A class begins
    as the mean of its photos; the head makes of it a column of weights. Both are drawn at length 1. For a
    head that compares with the means they are the same.
    """
    learned = moment.ready()
    linear, support = learned.linear, learned.support
    rows = unit_rows(prepared(support.features, linear.power) - linear.shift)
    before = unit_rows(np.eye(len(support.classes))[support.labels].T @ rows)
    plane = principal_plane(rows)
    photos, means, adapted = (
        plane.places(part).tolist() for part in (rows, before, unit_rows(linear.weight.T))
    )
    return Projection(
        shown=plane.shown,
        photos=[
            PhotoPlace(number=photo.number, place=place)
            for photo, place in zip(moment.album.photos, photos, strict=True)
        ],
        prototypes=[
            PrototypePlaces(label=str(label), before=mean, after=place)
            for label, mean, place in zip(support.classes, means, adapted, strict=True)
        ],
    )
