"""Tables of file names and labels, one a split."""

from pathlib import Path

import pytest

from fewset.core.errors import UserError
from fewset.data.images.importing import import_set
from tests.helpers.trees import (
    Write,
    as_directory,
    assert_holds,
    assert_nothing_was_written,
    both,
    folder,
    picture,
    rows_of,
    tables,
)


@both
@pytest.mark.parametrize("images", ["images/", ""])
def test_csv(tmp_path: Path, write: Write, images: str) -> None:
    tree = tables(images=images)
    assert_holds(import_set("csv", write(tree, tmp_path), size=11), tree, rows_of(images))


def test_csv_with_paths_any_of_the_splits_and_more_columns(tmp_path: Path) -> None:
    data = picture(0)
    table = '\ufefflabel,filename,x\r\ncat,../other/1.png,\r\n\r\n"a, b",.\\sub\\2.png,7\r\n'
    tree = {
        "lists/val.csv": table.encode(),
        "other/1.png": data,
        "lists/sub/2.png": data,
        "lists/not.png": b"",
    }
    got = import_set("csv", as_directory(tree, tmp_path), size=11)
    assert_holds(got, tree, {("val", "cat", "other/1.png"), ("val", "a, b", "lists/sub/2.png")})


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ("filename,kind\na0.png,a\n", r"train.csv in .* has no column 'label'"),
        ("", r"train.csv in .* has no column 'filename'"),
        ("filename,label\na0.png,a\nnone.png,a\n", r"train.csv, line 3 .*none.png"),
        ("filename,label\na0.png,a\na1.png\n", r"train.csv, line 3 .*'label' is empty"),
        ("filename,label\na0.png,a\na1.png,a\na0.png,a\n", r"train.csv, line 4 .*listed twice"),
        ('filename,label\n"a0.png,a\n', "is not a readable CSV file"),
        ("filename,label\na\xff,a\n", "is not a readable CSV file"),
    ],
)
def test_csv_says_what_is_wrong_and_where(tmp_path: Path, table: str, complaint: str) -> None:
    tree = {**tables(), "train.csv": table.encode("latin-1")}
    with pytest.raises(UserError, match=complaint):
        import_set("csv", as_directory(tree, tmp_path))
    assert_nothing_was_written()


def test_csv_needs_one_folder_of_tables(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no folder in"):
        import_set("csv", as_directory(folder(), tmp_path / "none"))
    tree = {**tables(), "more/test.csv": b"filename,label\n"}
    with pytest.raises(UserError, match="more/"):
        import_set("csv", as_directory(tree, tmp_path / "two"))
