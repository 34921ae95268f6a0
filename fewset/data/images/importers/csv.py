"""Tables `train.csv`, `val.csv`, `test.csv` (any of them) with the columns `filename` and `label`.

The tables are in one folder; a `filename` is relative to that folder or to `images/` in it.
"""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from posixpath import normpath

from fewset.core.errors import UserError
from fewset.data.images.importers import Entry, register_importer
from fewset.data.images.sources import Source
from fewset.data.images.store import SPLITS

_SAME = (("path", "filename", "file"), ("label", "class"))  # names that columns have in the tables of users
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_TABLES = tuple(f"{split}.csv" for split in SPLITS)


@register_importer("csv")
def entries(source: Source) -> list[Entry]:
    folders = {path.parent for path in map(PurePosixPath, source.files) if path.name in _TABLES}
    if len(folders) != 1:
        found = ", ".join(sorted(f"{folder}/" for folder in folders)) or "no folder"
        raise UserError(
            f"{found} in {source.path} has {', '.join(_TABLES)}; expected one folder with one or more of them"
        )
    folder = folders.pop()
    return read_tables(source, folder, [folder, folder / "images"])


def read_tables(source: Source, folder: PurePosixPath, places: Sequence[PurePosixPath]) -> list[Entry]:
    """The rows of the tables in `folder`; an image is looked for in `places`, in this order."""
    files = set(source.files)
    rows: dict[str, Entry] = {}
    for split, name in zip(SPLITS, _TABLES, strict=True):
        table = str(folder / name)
        if table not in files:
            continue
        for line, filename, label in rows_of(source, table):
            paths = [normpath(str(place / filename.replace("\\", "/"))) for place in places]
            path = next((path for path in paths if path in files), None)
            if path is None:
                raise UserError(
                    f"{table}, line {line} in {source.path}: there is no image {' nor '.join(paths)}"
                )
            if path in rows:
                raise UserError(
                    f"{table}, line {line} in {source.path}: {path} is listed twice; remove a line"
                )
            rows[path] = Entry(path, label, split)
    return list(rows.values())


def rows_of(source: Source, table: str) -> list[tuple[int, str, str]]:
    """The line number, file name and label of each row."""
    rows = table_rows(source.content(table), table, ("filename", "label"), f" in {source.path}")
    return [(line, filename, label) for line, (filename, label) in rows]


def table_rows(
    data: bytes, table: str, columns: Sequence[str], within: str = "", optional: Sequence[str] = ()
) -> list[tuple[int, list[str]]]:
    """The rows of a CSV file, as `streamed_rows` has them."""
    try:
        text = data.decode(table_encoding(data))
    except UnicodeDecodeError as error:
        raise _unreadable(table + within, error) from error
    return list(streamed_rows(io.StringIO(text, newline=""), table, columns, within, optional))


def table_encoding(beginning: bytes) -> str:
    """The encoding of a CSV file."""
    return "utf-16" if beginning.startswith(_UTF_16) else "utf-8-sig"


def streamed_rows(
    lines: io.TextIOBase, table: str, columns: Sequence[str], within: str = "", optional: Sequence[str] = ()
) -> Iterator[tuple[int, list[str]]]:
    """The line number of each row with its cells in these columns, of which none may be empty.

    Cells of the `optional` columns follow, "" where they are empty or missing. Cells are separated by commas,
    semicolons or tabs, and a column may have another of its usual names. Errors name `table`, and `within`
    which place it is.
    """
    try:
        separator = max(",;\t", key=lines.readline().count)
        lines.seek(0)
        reader = csv.DictReader(lines, delimiter=separator, strict=True, skipinitialspace=separator != "\t")
        header = reader.fieldnames or []
        found = {column: _column(column, header) for column in (*columns, *optional)}
        for column in columns:
            if found[column] not in header:
                raise UserError(
                    f"{table}{within} has no column {column!r}: its first line is "
                    f"{separator.join(header)!r}, expected {separator.join(columns)!r}"
                )
        for row in reader:
            for column in columns:
                if not row[found[column]]:
                    raise UserError(
                        f"{table}, line {reader.line_num}{within}: the column {column!r} is empty"
                    )
            yield reader.line_num, [row.get(name) or "" for name in found.values()]
    except (UnicodeDecodeError, csv.Error) as error:
        raise _unreadable(table + within, error) from error


def _unreadable(table: str, error: Exception) -> UserError:
    return UserError(f"{table} is not a readable CSV file in UTF-8: {error}; in Excel, save it as CSV UTF-8")


def _column(name: str, header: Sequence[str]) -> str:
    """The column of this name, or of another name for the same, in capital letters or not."""
    same = next((names for names in _SAME if name in names), (name,))
    written = {column.strip().lower(): column for column in reversed(header)}
    return next((written[each] for each in (name, *same) if each in written), name)
