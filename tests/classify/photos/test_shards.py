import tarfile
from pathlib import Path

import pytest

from fewset.classify.photos.shards import Shard, parse_shard, shard_photos
from fewset.compute import distributed
from fewset.core.errors import UserError
from fewset.data.images.decoding import Box
from tests.helpers.photos import write_photos


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = write_photos(tmp_path / "photos", 20)
    (folder / ".hidden.png").write_bytes(b"")
    (folder / "notes.txt").write_bytes(b"")
    return folder


def files(folder: Path) -> list[str]:
    return sorted(str(file) for file in folder.glob("*/*.png"))


def names(path: Path, shard: Shard = Shard()) -> list[str]:  # noqa: B008
    return [photo.name for photo in shard_photos([path], shard)]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_each_photo_is_in_one_shard(photos: Path, count: int) -> None:
    shards = [names(photos, Shard(number, count)) for number in range(count)]
    assert sorted(name for shard in shards for name in shard) == files(photos)
    assert all(shards)
    assert shards == [names(photos, Shard(number, count)) for number in range(count)]


def test_a_new_photo_moves_no_other(photos: Path) -> None:
    before = [names(photos, Shard(number, 3)) for number in range(3)]
    (photos / "grass" / "0000.png").write_bytes(b"")
    after = [names(photos, Shard(number, 3)) for number in range(3)]
    assert sum(len(new) - len(old) for old, new in zip(before, after, strict=True)) == 1
    assert all(set(old) <= set(new) for old, new in zip(before, after, strict=True))


def test_lists_have_the_shards_of_their_folder(photos: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    listed = [str(Path(file).relative_to(photos)) for file in files(photos)]
    (photos / "all.csv").write_text("label,path\n" + "".join(f'x,"{name}"\n' for name in listed))
    table = pyarrow.table({"id": range(len(listed)), "path": pyarrow.array(listed, pyarrow.large_string())})
    pyarrow.parquet.write_table(table, photos / "all.parquet", row_group_size=7)
    for number in range(3):
        expected = names(photos, Shard(number, 3))
        assert sorted(names(photos / "all.csv", Shard(number, 3))) == sorted(expected)
        assert sorted(names(photos / "all.parquet", Shard(number, 3))) == sorted(expected)
    pyarrow.parquet.write_table(pyarrow.table({"name": listed}), photos / "other.parquet")
    with pytest.raises(UserError, match=r"has the columns name, expected path; write it again"):
        names(photos / "other.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"path": ["a.jpg", None]}), photos / "other.parquet")
    with pytest.raises(UserError, match=r"empty cells in the column path"):
        names(photos / "other.parquet")


def test_parts_of_photos_and_other_forms_of_tables(photos: Path) -> None:
    rows = ["filename;x;y;width;height", "grass/1.png;1;2;3;4", "grass/1.png;5;2;3;4", "grass/2.png;;;;"]
    (photos / "parts.csv").write_text("\n".join(rows), encoding="utf-16")
    found = list(shard_photos([photos / "parts.csv"], Shard()))
    assert [photo.name.rpartition("/")[2] for photo in found] == [
        "1.png#xywh=1,2,3,4",
        "1.png#xywh=5,2,3,4",
        "2.png",
    ]
    assert found[0].read() == (photos / "grass" / "1.png").read_bytes()
    assert found[1].box == Box(5, 2, 3, 4)


def test_a_tar_file_is_in_one_shard_as_a_whole(photos: Path, tmp_path: Path) -> None:
    tars = [tmp_path / f"{number}.tar" for number in range(3)]
    for number, path in enumerate(tars):
        with tarfile.open(path, "w") as archive:
            for file in files(photos)[number::3]:
                archive.add(file, arcname=f"key/{Path(file).parent.name}.{Path(file).name}")
            archive.add(photos / "notes.txt", arcname="key/notes.cls")
            archive.add(photos / ".hidden.png", arcname="key/._0.png")
    assert next(iter(shard_photos(tars, Shard(1, 3)))).name.startswith(f"{tars[1]}/key/")
    found = [list(shard_photos(tars, Shard(number, 2))) for number in range(2)]
    assert [len(shard) for shard in found] == [40, 20]
    read = sorted(photo.read() for shard in found for photo in shard)  # type: ignore[type-var]
    assert read == sorted(Path(file).read_bytes() for file in files(photos))
    assert list(shard_photos(tars, Shard(4, 5))) == []


def test_a_photo_and_wrong_paths(photos: Path, tmp_path: Path) -> None:
    file = Path(files(photos)[0])
    assert names(file) == [str(file)]
    for path, text, told in [
        ("none.csv", "name\n1.png\n", "has no column 'path'"),
        ("gap.csv", "path,label\n1.png,a\n,b\n", r"line 3: the column 'path' is empty"),
        ("bad.csv", 'path\n"1.png', "not a readable CSV"),
        ("empty.csv", "path\n", "there are no photos in"),
        ("a.zip", "", "is no folder, CSV or Parquet file"),
    ]:
        (tmp_path / path).write_text(text)
        with pytest.raises(UserError, match=told):
            names(tmp_path / path)
    with pytest.raises(UserError, match="does not exist"):
        names(tmp_path / "absent")
    (tmp_path / "cut.tar").write_bytes(b"nonsense" * 100)
    with pytest.raises(UserError, match="get it again"):
        names(tmp_path / "cut.tar")


def test_the_words_of_a_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_shard(None) == Shard(0, 1)
    assert parse_shard("3/8") == Shard(3, 8)
    for wrong in ("8/8", "1", "a/b", "0/0", "-1/2", "1/2/3"):
        with pytest.raises(UserError, match="expected I/N with I from 0"):
            parse_shard(wrong)
    shards = []
    for rank in range(4):
        monkeypatch.setattr(distributed, "_processes", distributed._Processes(rank, 4, rank))
        shards += [parse_shard(f"{number}/2") for number in range(2)]
    assert sorted(shard.number for shard in shards) == list(range(8))
    assert {shard.count for shard in shards} == {8}
