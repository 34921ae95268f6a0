"""What `predict` and `embed` share for shards of photos: their options, and how parts are written."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fewset.cli.output import echo, resumable
from fewset.core.errors import UserError

ShardOption = Annotated[
    str | None,
    typer.Option(metavar="I/N", help="With --parquet: only part I (from 0) of N equal parts of the photos."),
]
ParquetOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Write Parquet files, also for a job array; photos may be in tar files, too."
    ),
]


def check_shard(shard: str | None, parquet: Path | None, others: dict[str, Any]) -> bool:
    """Whether parts are to be written; an error for options that do not go with them."""
    if parquet is None:
        if shard is not None:
            raise UserError("--shard writes Parquet files; give --parquet DIR")
        return False
    for option, value in others.items():
        if value:
            raise UserError(f"{option} does not go with --parquet; leave it out")
    return True


def write_shard(
    paths: Sequence[Path],
    shard: str | None,
    parquet: Path,
    columns: Callable[..., Any],
    made_by: Sequence[Any],
) -> None:
    """Write the parts of a shard, and print how many photos they have."""
    from fewset.classify.photos.shards import parse_shard
    from fewset.classify.predict.parts import write_parts

    part = parse_shard(shard)
    with resumable(f"the same command goes on with {parquet}"):
        written = write_parts(paths, part, parquet, columns, made_by)
    earlier = f", {written.kept:,} of them by an earlier run" if written.kept else ""
    echo(f"{parquet}/part-{part}-*.parquet: {written.photos:,} photos{earlier}")
    if written.unreadable:
        echo(f"photos that could not be read: {written.unreadable:,} (the column problem says why)")
