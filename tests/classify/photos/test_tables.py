"""Tables of photos as users have them."""

from pathlib import Path

import pytest

from fewset.classify.photos.labelled import opened_classes
from fewset.classify.photos.tables import read_table
from fewset.core.errors import UserError
from fewset.data.images.decoding import Box


@pytest.mark.parametrize(
    "header", ["path{0}label", "filename{0}class", "note{0}File{0}Class", "label{0}path"]
)
@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_separators_columns_and_encodings(tmp_path: Path, header: str, separator: str, encoding: str) -> None:
    names = header.format(separator).split(separator)
    cells = {"note": '"a, b; c"', "label": "grün", "class": "grün"}
    row = separator.join(cells.get(name.lower(), "1.jpg") for name in names)
    (tmp_path / "a.csv").write_text(f"{separator.join(names)}\r\n{row}\r\n", encoding=encoding)
    (found,) = read_table(tmp_path / "a.csv", labelled=True)
    assert (found.file, found.name, found.label) == (tmp_path / "1.jpg", "1.jpg", "grün")


def test_another_encoding_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("path,label\n1.jpg,grün\n".encode("cp1252"))
    with pytest.raises(
        UserError, match=r"not a readable CSV file in UTF-8: .*; in Excel, save it as CSV UTF-8"
    ):
        read_table(tmp_path / "a.csv")


def test_parts_of_photos(tmp_path: Path) -> None:
    """Parts of one photo have stable names, and are one group: they are not independent."""
    lines = ("1.jpg,owl,10,20,30.5,40", "1.jpg,jay,0,0,10,10", "2.jpg,owl,1,2,3,4", "3.jpg,jay,,,,")
    (tmp_path / "a.csv").write_text("\n".join(["path,label,x,y,width,height", *lines]) + "\n")
    with opened_classes(tmp_path / "a.csv") as (photos, labels):
        assert labels == ["owl", "jay", "owl", "jay"]
        assert [photo.name for photo in photos] == [
            "1.jpg#xywh=10,20,30.5,40",
            "1.jpg#xywh=0,0,10,10",
            "2.jpg#xywh=1,2,3,4",
            "3.jpg",
        ]
        assert [photo.box for photo in photos] == [
            Box(10, 20, 30.5, 40),
            Box(0, 0, 10, 10),
            Box(1, 2, 3, 4),
            None,
        ]
        assert [bool(photo.group) for photo in photos] == [True, True, False, False]
        assert photos[0].group == photos[1].group


@pytest.mark.parametrize("cells", ["1,2,3,", "a,2,3,4", "1,2,0,4", "1,2,3,-4", "1,nan,3,4", "1,2,inf,4"])
def test_a_box_that_is_none(tmp_path: Path, cells: str) -> None:
    (tmp_path / "a.csv").write_text(f"path,x,y,width,height\n1.jpg,,,,\n1.jpg,{cells}\n")
    with pytest.raises(UserError, match=r"a\.csv, line 3: x, y, width, height are .*, expected four numbers"):
        read_table(tmp_path / "a.csv")
