"""miniImageNet as it is passed on: `images/*.jpg` beside `split/{train,val,test}.csv` (`filename,label`)."""

from pathlib import PurePosixPath

from fewset.data.importers import Entry
from fewset.data.importers.csv import read_tables
from fewset.data.sources import Source
from fewset.data.store import SPLITS
from fewset.errors import UserError


def entries(source: Source) -> list[Entry]:
    files = set(source.files)
    roots = [
        PurePosixPath(file).parent.parent for file in source.files if f"/{file}".endswith("/split/train.csv")
    ]
    for root in roots:
        if all(str(root / "split" / f"{split}.csv") in files for split in SPLITS):
            return read_tables(source, root / "split", [root / "images"])
    raise UserError(
        f"{source.path} is not laid out as miniImageNet: expected images/ and split/train.csv, "
        "split/val.csv, split/test.csv, with or without a folder around them; other tables import as csv"
    )
