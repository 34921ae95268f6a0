"""What goes over the wire, as the OpenAPI page describes it, and how it is made of what the house knows."""

from math import isfinite
from typing import Annotated

from pydantic import BaseModel, Field

from fewset.classify.labels import plain_label
from fewset.classify.predict.answers import Answer
from fewset.classify.serve.album import LabelledPhoto
from fewset.classify.serve.projection import Projection
from fewset.classify.serve.workbench import Moment
from fewset.classify.trust import Trust
from fewset.core.names import LONGEST

ClassName = Annotated[str, Field(min_length=1, max_length=LONGEST)]
Number = Annotated[int, Field(ge=0, lt=2**53)]
Numbers = Annotated[list[Number], Field(min_length=1, max_length=20_000)]
Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]


class Problem(BaseModel):
    detail: str


class NewClass(BaseModel):
    name: ClassName


class Rename(BaseModel):
    name: ClassName
    new_name: ClassName


class PhotoNumbers(BaseModel):
    photos: Numbers


class Move(PhotoNumbers):
    label: ClassName


class Reject(BaseModel):
    share: Share | None = Field(description="Of the classes' own photos that may be turned away; null: none.")


class PhotoShown(BaseModel):
    number: int
    name: str


class Skipped(BaseModel):
    name: str
    problem: str


class Added(BaseModel):
    photos: list[PhotoShown]
    skipped: list[Skipped]


class Undone(BaseModel):
    undone: str


class ClassShown(BaseModel):
    name: str
    photos: list[PhotoShown]


class ConfusionShown(BaseModel):
    label: str
    taken_for: str
    photos: int


class SuspectShown(BaseModel):
    photo: PhotoShown
    label: str
    looks_like: str
    probability: float


class TrustShown(BaseModel):
    in_words: str
    tested: int
    right: int
    low: float | None = Field(description="The accuracy on new photos like these, 95 % interval.")
    high: float | None
    untested: list[str] = Field(description="Classes with too few photos to be tested.")
    confusions: list[ConfusionShown]
    suspects: list[SuspectShown]
    copies: list[list[PhotoShown]]
    weakest: str = Field(description="The class that another photo would help most.")


class DownloadShown(BaseModel):
    name: str
    title: str


class State(BaseModel):
    revision: int
    encoder: str
    head: str
    classes: list[ClassShown]
    share: float | None
    usual_share: float = Field(description="The share to set when a photo may be none of these again.")
    can_reject: bool = Field(description="Whether it can be told that a photo is none of these.")
    trust: TrustShown | None = Field(
        description="null as long as fewer than two classes have photos, and while it is learning."
    )
    learning: bool = Field(description="Whether the classifier is still learning from the last change.")
    undo: str | None
    waiting: int = Field(description="Photos that are being embedded.")
    downloads: list[DownloadShown]


class Likely(BaseModel):
    label: str
    probability: float


class Reason(PhotoShown):
    label: str


class AnswerShown(BaseModel):
    number: int | None = Field(default=None, description="Of a photo that is kept.")
    name: str
    label: str | None = Field(description="The likeliest class, also of a photo that is none of these.")
    none_of_these: bool
    probability: float | None
    top: list[Likely]
    closeness: float | None
    reason: Reason | None = Field(description="The nearest labelled photo.")
    problem: str = ""
    taught: str | None = Field(default=None, description="The class that the photo was put into.")


class Answers(BaseModel):
    revision: int
    answers: list[AnswerShown]


class Point(BaseModel):
    x: float
    y: float


class PhotoPoint(Point):
    number: int
    name: str
    label: str


class PrototypePoint(BaseModel):
    label: str
    before: Point
    after: Point


class Picture(BaseModel):
    shown: float = Field(description="The share of the photos' differences that the picture shows.")
    photos: list[PhotoPoint]
    prototypes: list[PrototypePoint]


def trust_shown(moment: Moment) -> TrustShown | None:
    """How far to trust the classifier, in names instead of numbers."""
    learned = moment.learned
    if learned is None:
        return None
    trust: Trust = learned.trust
    names = [str(plain_label(label)) for label in learned.support.classes]
    photos = [photo_shown(photo) for photo in moment.album.photos]
    return TrustShown(
        in_words=trust.in_words,
        tested=trust.tested,
        right=trust.right,
        low=trust.interval.low if trust.interval else None,
        high=trust.interval.high if trust.interval else None,
        untested=[names[number] for number in trust.untested],
        confusions=[
            ConfusionShown(label=names[each.label], taken_for=names[each.taken_for], photos=each.photos)
            for each in trust.confusions
        ],
        suspects=[
            SuspectShown(
                photo=photos[each.photo],
                label=moment.album.photos[each.photo].label,
                looks_like=names[each.looks_like],
                probability=each.probability,
            )
            for each in trust.suspects
        ],
        copies=[[photos[number] for number in group] for group in trust.copies],
        weakest=names[trust.weakest],
    )


def classes_shown(moment: Moment) -> list[ClassShown]:
    photos: dict[str, list[PhotoShown]] = {name: [] for name in moment.album.classes}
    for photo in moment.album.photos:
        photos[photo.label].append(photo_shown(photo))
    return [ClassShown(name=name, photos=own) for name, own in photos.items()]


def photo_shown(photo: LabelledPhoto) -> PhotoShown:
    return PhotoShown(number=photo.number, name=photo.row.name)


def can_reject(moment: Moment) -> bool:
    return moment.learned is not None and bool(moment.learned.trust.closeness)


def answer_shown(moment: Moment, answer: Answer, number: int | None = None) -> AnswerShown:
    """One answer, with the nearest labelled photo as it stands in the album."""
    reason, taught = None, None
    if answer.nearest >= 0:
        nearest = moment.album.photos[answer.nearest]
        reason = Reason(number=nearest.number, name=nearest.row.name, label=nearest.label)
    if number is not None:
        kept = moment.album.by_number.get(number)
        taught = kept.label if kept else None
    label = str(answer.top[0][0]) if answer.top else None
    return AnswerShown(
        number=number,
        name=answer.name,
        label=label,
        none_of_these=label is not None and str(answer.label) != label,
        probability=_number(answer.probability),
        top=[Likely(label=str(each), probability=probability) for each, probability in answer.top],
        closeness=_number(answer.closeness),
        reason=reason,
        problem=answer.problem,
        taught=taught,
    )


def picture_shown(moment: Moment, places: Projection) -> Picture:
    classes = moment.ready().support.classes
    return Picture(
        shown=places.shown,
        photos=[
            PhotoPoint(number=photo.number, name=photo.row.name, label=photo.label, x=x, y=y)
            for photo, (x, y) in zip(moment.album.photos, places.photos.tolist(), strict=True)
        ],
        prototypes=[
            PrototypePoint(label=str(label), before=Point(x=b[0], y=b[1]), after=Point(x=a[0], y=a[1]))
            for label, b, a in zip(classes, places.before.tolist(), places.after.tolist(), strict=True)
        ],
    )


def _number(number: float) -> float | None:
    return number if isfinite(number) else None
