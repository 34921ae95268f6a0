"""Which photos were taken together: by their times and cameras, their file names, and how alike they are.

All signs that are found count; photos without any are each of an occasion of their own. File names count only
where they come from a camera or a program (`IMG_0012.JPG`, `PXL_20240513_142233.jpg`, `film_frame_07.png`):
users often number the photos of a class themselves, from 1 on.
"""

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from fewset.classify.photos.support import Support
from fewset.classify.photos.taken import Taken, parsed
from fewset.classify.trust.copies import joined, numbered_copies

GAP = timedelta(minutes=10)
"""Photos of one camera belong together up to this time between one and the next."""
NEAR_PHOTO, NEAR_BITS = 0.85, 16
"""The cosine from which photos of alike fingerprints are of one occasion, and the bits in which these may
differ. In tasks of 2 classes and 5 from miniImageNet's and CUB's validation classes and Sketchy's photos no
photograph was that near to another one, and of sketches, which are white for the most part, 0.2 to 0.4 %."""
_NUMBERS_APART = 2  # in a series of file names, for one that was deleted

_TIME = re.compile(
    r"(?<!\d)((?:19|20)\d\d)[-_.]?(\d\d)[-_.]?(\d\d)(?:[-_ T.]| at )?"
    r"(\d\d)[-_.]?(\d\d)[-_.]?(\d\d)(?:\d{3})?(?!\d)"
)
_SERIES = re.compile(
    r"((?:IMG|_MG|IMGP|CIMG|_?DSC[NF]?|PICT|SAM|GOPR|DJI|P[1-9A-C]\d\d|IMG-\d{8}-WA)_?)(\d{4})"
)
_FRAME = re.compile(r"(.*?)[-_ ]?frame[-_ ]?\d+", re.IGNORECASE)
_VARIANT = re.compile(
    r"(.*(?:\d{5}|(?!19|20)\d{4}).*?)"
    r"(?:[-_~]\d{1,2}| ?\(\d{1,2}\)|[-_ ](?:edited|copy|cropped)|\.rf\.[0-9a-f]{16,})",
    re.IGNORECASE,
)


def numbered_occasions(
    support: Support, rows: Float[np.ndarray, "n D"], copies: Int[np.ndarray, " n"]
) -> Int[np.ndarray, " n"]:
    """A number for each photo; those of one occasion have the same. `rows` are prepared."""
    paths = [PurePosixPath(name.replace("\\", "/")) for name in support.names]
    taken = [parsed(text) or _time_in(path.stem) for text, path in zip(support.taken, paths, strict=True)]
    timed = [None if each is None else (each.camera, each.time) for each in taken]
    series = [_series(path) if each is None else None for each, path in zip(taken, paths, strict=True)]
    return joined(
        copies,
        numbered_copies(rows, support.fingerprints, NEAR_PHOTO, NEAR_BITS),
        _numbered_runs(timed, GAP),
        _numbered_runs(series, _NUMBERS_APART),
        _numbered(_origin(path) for path in paths),
    )


def _time_in(stem: str) -> Taken | None:
    """The time in the name of a file."""
    found = _TIME.search(stem)
    try:
        return Taken(datetime(*map(int, found.groups())), "") if found else None  # type: ignore[arg-type]
    except ValueError:
        return None


def _series(path: PurePosixPath) -> tuple[str, int] | None:
    """The prefix and the number that a camera gave."""
    found = _SERIES.fullmatch(path.stem)
    return (found[1], int(found[2])) if found else None


def _origin(path: PurePosixPath) -> Hashable:
    """What an image was made from: the film of a frame, the photo of a variant; None if it says nothing."""
    found = _FRAME.fullmatch(path.stem) or _VARIANT.fullmatch(path.stem)
    return (path.parent, found.re, found[1]) if found else None


def _numbered_runs(places: list[tuple[str, Any] | None], gap: Any) -> Int[np.ndarray, " n"]:
    """Numbers of runs of one name (a camera, a prefix): up to `gap` from each to the next. -1 for None."""
    named = defaultdict(list)
    for photo, place in enumerate(places):
        if place is not None:
            named[place[0]].append((place[1], photo))
    numbers = np.full(len(places), -1)
    count = 0
    for ordered in map(sorted, named.values()):
        numbers[ordered[0][1]] = count
        for (before, _), (after, photo) in pairwise(ordered):
            count += after - before > gap
            numbers[photo] = count
        count += 1
    return numbers


def _numbered(values: Iterable[Hashable]) -> Int[np.ndarray, " n"]:
    """Equal values have one number; -1 for None."""
    known: dict[Hashable, int] = {}
    return np.array([-1 if value is None else known.setdefault(value, len(known)) for value in values])
