"""Answers or features of a shard of photos, as Parquet files of a few thousand photos each.

A part appears whole or not at all, and its content depends on its photos alone. So the same command goes on
after a stop, and does nothing once all parts are there.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count, islice
from pathlib import Path
from typing import Any

from fewset.classify.photos.rows import BATCH, PhotoRow, photo_rows
from fewset.classify.photos.shards import Shard, shard_photos
from fewset.classify.photos.sources import Photo
from fewset.classify.predict.answers import Predictor, answer_row
from fewset.core.errors import UserError
from fewset.core.progress import progress
from fewset.encoders import Encoder
from fewset.io.files import check_output
from fewset.io.parquet import pyarrow, read_table, write_table
from fewset.io.reading import remedy

PART = 8192
"""Photos in a file."""
Columns = Mapping[str, tuple[str | int, Sequence[Any]]]
_NAME = re.compile(r"part-\d+-of-(?P<count>\d+)-\d+\.parquet")


@dataclass
class Written:
    """Counts of the photos of a shard."""

    photos: int = 0
    unreadable: int = 0
    kept: int = 0
    """Photos in parts that were there already."""


def answer_columns(predictor: Predictor, encoder: Encoder) -> Callable[[Iterable[Photo]], Columns]:
    """The function that answers photos: the columns of `fewset predict --csv`."""
    numbers = range(1, predictor.top + 1)

    def columns(photos: Iterable[Photo]) -> Columns:
        rows = [answer_row(answer) for answer in predictor.answers(photo_rows(photos, encoder))]
        found: dict[str, tuple[str | int, Sequence[Any]]] = {}
        for name in ("file", "class", "probability", "closeness", "nearest", "problem"):
            kind = "double" if name in ("probability", "closeness") else "string"
            found[name] = kind, [_text(row[name]) if kind == "string" else row[name] for row in rows]
        for place in numbers:
            top = [row["top"][place - 1] if place <= len(row["top"]) else (None, None) for row in rows]
            found[f"class_{place}"] = "string", [_text(label) for label, _ in top]
            found[f"probability_{place}"] = "double", [share for _, share in top]
        return found

    return columns


def feature_columns(encoder: Encoder) -> Callable[[Iterable[Photo]], Columns]:
    """The function that embeds photos: a row of features each, null for a photo that cannot be read."""

    def columns(photos: Iterable[Photo]) -> Columns:
        rows: list[PhotoRow] = list(photo_rows(photos, encoder))
        return {
            "file": ("string", [_text(row.name) for row in rows]),
            "features": (encoder.dim, [None if row.problem else row.features for row in rows]),
            "problem": ("string", [row.problem or None for row in rows]),
        }

    return columns


def write_parts(
    paths: Sequence[Path],
    shard: Shard,
    out: Path,
    columns: Callable[[Iterable[Photo]], Columns],
    made_by: Sequence[Any],
) -> Written:
    """Write the missing parts of a shard; `made_by` are the digests and options behind them."""
    pyarrow()
    run = sha256(json.dumps(made_by).encode()).hexdigest()
    check_output(out, directory=True)
    out.mkdir(exist_ok=True)
    _check_count(out, shard)
    written, photos = Written(), shard_photos(paths, shard)
    with progress("photos", None) as advance:
        for number in count():
            part = list(islice(photos, PART))
            path = out / f"part-{shard}-{number:06}.parquet"
            if number and not part:
                break
            if _kept(path, part, run, written):
                written.kept += len(part)
            else:
                found = columns(part)
                bad = sum(problem is not None for problem in found["problem"][1])
                if bad == len(part) > BATCH:
                    reason = f"{part[0].name}: {found['problem'][1][0]}"
                    raise UserError(
                        f"none of the next {bad:,} photos can be read ({reason}); nothing is written"
                    )
                write_table(path, found, run)
                written.unreadable += bad
            written.photos += len(part)
            advance(len(part))
    while path.exists():  # of an earlier run with more photos
        path.unlink()
        number += 1
        path = out / f"part-{shard}-{number:06}.parquet"
    return written


def _check_count(out: Path, shard: Shard) -> None:
    for found in filter(None, map(_NAME.fullmatch, (path.name for path in out.iterdir()))):
        if int(found["count"]) != shard.count:
            raise UserError(
                f"{out} has parts of {int(found['count'])} shards, expected {shard.count}: photos would be "
                "there twice; choose another directory, or the same number of shards"
            )


def _kept(path: Path, part: Sequence[Photo], run: str, written: Written) -> bool:
    """Whether a file has the answers of these photos."""
    if not path.exists():
        return False
    with remedy("remove it, and give the same command again"):
        note, found = read_table(path, ["file", "problem"])
    if note != run:
        raise UserError(
            f"{path} is from another classifier or encoder, or from other options; choose another directory"
        )
    if found["file"] != [_text(photo.name) for photo in part]:
        return False
    written.unreadable += sum(problem is not None for problem in found["problem"])
    return True


def _text(value: Any) -> str | None:
    """A text as Parquet has it, in UTF-8: names of files may be any bytes on Linux."""
    return None if value is None else str(value).encode(errors="backslashreplace").decode()
