"""Parquet files (the extra `scale`): a column as a stream, and small tables that are written whole."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fewset.core.extras import import_extra
from fewset.io.files import replacing
from fewset.io.reading import Damaged, parsing, regular_file

SUFFIX = ".parquet"
_NOTE = b"fewset"
_ROWS = 8192  # that are in memory at a time


def pyarrow() -> Any:
    """The library pyarrow, with its module `parquet`."""
    import_extra("pyarrow.parquet", "scale")
    return import_extra("pyarrow", "scale")


def read_texts(path: Path, column: str) -> Iterator[str]:
    """The texts of a column."""
    library = pyarrow()
    with parsing(path), library.parquet.ParquetFile(regular_file(path)) as file:
        if column not in file.schema_arrow.names:
            raise Damaged(path, f"has the columns {', '.join(file.schema_arrow.names)}, expected {column}")
        for batch in file.iter_batches(_ROWS, columns=[column]):
            texts = batch.column(0).cast(library.string())
            if texts.null_count:
                raise Damaged(path, f"has empty cells in the column {column}")
            yield from texts.to_pylist()


def write_table(path: Path, columns: Mapping[str, tuple[str | int, Sequence[Any]]], note: str) -> None:
    """Write columns, each with its type and its values, and a note.

    The type is one of Arrow, such as "string"; or a number: each value is a row of so many float32, or None.
    """
    library = pyarrow()
    arrays = {
        name: library.array(values, kind) if isinstance(kind, str) else _rows(library, kind, values)
        for name, (kind, values) in columns.items()
    }
    table = library.table(arrays).replace_schema_metadata({_NOTE: note})
    with replacing(path) as temporary:
        library.parquet.write_table(table, temporary)


def read_table(path: Path, columns: Sequence[str]) -> tuple[str, dict[str, list[Any]]]:
    """The note of a table that `write_table` wrote, and some of its columns."""
    with parsing(path):
        table = pyarrow().parquet.read_table(regular_file(path), columns=list(columns))
        return table.schema.metadata[_NOTE].decode(), table.to_pydict()


def _rows(library: Any, dim: int, values: Sequence[Any]) -> Any:
    missing = np.array([value is None for value in values], dtype=bool)
    flat = np.zeros((len(values), dim), dtype=np.float32)
    for row, value in zip(flat, values, strict=True):
        row[:] = 0 if value is None else value
    return library.FixedSizeListArray.from_arrays(flat.ravel(), dim, mask=library.array(missing))
