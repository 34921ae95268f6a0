"""A picture of the photos in two dimensions, with the prototypes before and after adaptation.

Everything is drawn in the space in which the head compares: features to the head's power, shifted, at length
1. There a class begins as the mean of its photos. What the head makes of it, with an eye on all other
classes, is the column of weights that a photo is multiplied with. Both are drawn as directions, at length 1.
For a head that compares with the means themselves they are one and the same.
"""

import numpy as np
from pydantic import BaseModel, Field

from fewset.classify.heads import prepared, unit_rows
from fewset.classify.serve.workbench import Moment
from fewset.evaluation.principal_plane import principal_plane

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


def projection(moment: Moment) -> Projection:
    """The picture of a classifier's labelled photos."""
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
