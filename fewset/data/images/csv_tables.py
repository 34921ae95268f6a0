"""Tables (CSV) that list images: read whole, every cell that is needed there."""

import csv
import io
from collections.abc import Sequence

from fewset.core.errors import UserError


def table_rows(
    data: bytes, table: str, columns: Sequence[str], place: str = "", optional: Sequence[str] = ()
) -> list[tuple[int, list[str]]]:
    """The line number and the cells of these columns, of each row. `place` is where the table is.

    The `optional` columns follow; their cells are "" where they are empty or the table has no such column.
    """
    within = f" in {place}" if place else ""
    try:
        reader = csv.DictReader(
            io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True, skipinitialspace=True
        )
        there = reader.fieldnames or []
        rows = [(reader.line_num, row) for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{table}{within} is not a readable CSV file in UTF-8: {error}") from error
    for column in columns:
        if column not in there:
            raise UserError(
                f"{table}{within} has no column {column!r}: its first line is {','.join(there)!r}, expected "
                f"{','.join(columns)!r}"
            )
        for line, row in rows:
            if not row[column]:
                raise UserError(f"{table}, line {line}{within}: the column {column!r} is empty")
    return [(line, [row.get(column) or "" for column in (*columns, *optional)]) for line, row in rows]
