"""`predict` and `embed` with --parquet and --shard."""

import csv
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewset.classify import embedding as transformer
from fewset.classify.predict import parts
from fewset.encoders import register_encoder
from tests.helpers.command_line import fail, fewset, succeed
from tests.helpers.photos import PLUGIN, TinyEncoder, write_photos
from tests.helpers.processes import succeed as torchrun

pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A classifier, and an inbox with 61 photos, of which one is broken."""
    monkeypatch.chdir(tmp_path)
    register_encoder("tiny")(lambda device: TinyEncoder())  # noqa: ARG005
    monkeypatch.setattr(parts, "PART", 9)
    succeed("fit", write_photos(Path("photos"), 5), "-o", "my.fewset", "--encoder", "tiny")
    write_photos(Path("inbox"), 20, first=20)
    Path("inbox", "broken.jpg").write_bytes(b"nonsense")
    yield
    transformer._loaded.cache_clear()


def rows(out: str) -> list[dict[str, Any]]:
    found = [row for path in sorted(Path(out).iterdir()) for row in parquet.read_table(path).to_pylist()]
    return sorted(found, key=lambda row: row["file"])


def contents(out: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(out).iterdir()}


def in_words(row: dict[str, Any]) -> dict[str, str]:
    return {name: "" if value is None else str(value) for name, value in row.items()}


def test_shards_have_the_answers_of_one_run() -> None:
    succeed("predict", "my.fewset", "inbox", "--csv", "a.csv", "--reject")
    for number in range(4):
        succeed("predict", "my.fewset", "inbox", "--reject", "--shard", f"{number}/4", "--parquet", "out")
    with Path("a.csv").open() as file:
        expected = sorted(csv.DictReader(file), key=lambda row: row["file"])
    assert list(map(in_words, rows("out"))) == expected
    assert max(parquet.read_table(path).num_rows for path in Path("out").iterdir()) == 9
    schemas = {parquet.read_schema(path).remove_metadata().to_string() for path in Path("out").iterdir()}
    assert len(schemas) == 1


def test_the_same_command_goes_on_after_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "predict", "my.fewset", "inbox", "--shard", "1/2", "--parquet", "out"
    output = succeed(*words)
    whole = contents("out")
    assert "part-00001-of-00002-*.parquet: " in output
    assert "by an earlier run" not in output
    states = {path: path.stat().st_mtime_ns for path in Path("out").iterdir()}
    assert f"{len(rows('out'))} of them by an earlier run" in succeed(*words)  # and nothing is computed
    assert {path: path.stat().st_mtime_ns for path in Path("out").iterdir()} == states

    first, second, *_ = sorted(Path("out").iterdir())
    second.unlink()
    Path("out", "part-00001-of-00002-000099.parquet").write_bytes(first.read_bytes())  # not the next: stays
    succeed(*words)
    assert {name: contents("out")[name] for name in whole} == whole
    assert first.stat().st_mtime_ns == states[first]

    def stops(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    first.unlink()
    monkeypatch.setattr(parts, "write_table", stops)
    assert "the same command goes on with out" in fail_by_interrupt(*words)
    assert not first.exists()
    assert [path for path in Path("out").iterdir() if path.name.startswith(".")] == []


def fail_by_interrupt(*words: str) -> str:
    result = fewset(*words)
    assert result.exit_code == 130
    return result.output


def test_parts_follow_the_photos() -> None:
    """Of fewer photos than before no old part remains; a new photo is answered."""
    words = "predict", "my.fewset", "inbox", "--parquet", "out"
    succeed(*words)
    assert len(list(Path("out").iterdir())) == 7
    for file in Path("inbox", "grass").iterdir():
        file.unlink()
    succeed(*words)
    assert len(list(Path("out").iterdir())) == 5
    write_photos(Path("inbox"), 1, first=77)
    succeed(*words)
    assert [row["file"] for row in rows("out")] == sorted(map(str, Path("inbox").rglob("*.*g")))


def test_nothing_is_mixed() -> None:
    words = "predict", "my.fewset", "inbox", "--parquet", "out"
    succeed(*words, "--shard", "0/2")
    assert "has parts of 2 shards, expected 3" in fail(*words, "--shard", "0/3")
    assert "from another classifier or encoder" in fail(*words, "--shard", "0/2", "--top", "2")
    Path("out", "part-00000-of-00002-000000.parquet").write_bytes(b"nonsense")
    assert "remove it, and give the same command again" in fail(*words, "--shard", "0/2")


def test_embeddings_of_a_tar_file() -> None:
    with tarfile.open("shard.tar", "w") as archive:
        archive.add("inbox")
    output = succeed("embed", "tiny", "shard.tar", "--parquet", "out")
    assert "photos that could not be read: 1" in output
    table = parquet.read_table("out")
    assert table.schema.field("features").type.list_size == 96
    succeed("embed", "tiny", "inbox", "--parquet", "other")
    expected = {row["file"]: row for row in rows("other")}
    found = rows("out")
    assert len(found) == len(expected) == 61
    for row in found:
        other = expected[row["file"].removeprefix("shard.tar/")]
        assert row["problem"] == other["problem"]
        if row["problem"] is None:
            np.testing.assert_array_equal(row["features"], other["features"])
        else:
            assert row["features"] is None


@pytest.mark.skipif(os.name == "nt", reason="names are text there")
def test_a_name_that_is_no_text() -> None:
    os.rename(b"inbox/grass/20.png", b"inbox/grass/\xff.png")  # noqa: PTH104
    words = "predict", "my.fewset", "inbox", "--parquet", "out"
    succeed(*words)
    assert "inbox/grass/\\udcff.png" in {row["file"] for row in rows("out")}
    assert "61 of them by an earlier run" in succeed(*words)


def test_a_place_without_photos_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a disk is not mounted: else the same command would keep 40 wrong answers."""
    Path("all.csv").write_text("path\n" + "".join(f"/absent/{number}.jpg\n" for number in range(40)))
    monkeypatch.setattr(parts, "PART", 50)
    told = fail("predict", "my.fewset", "all.csv", "--parquet", "out")
    assert "none of the next 40 photos can be read (/absent/0.jpg: " in told
    assert list(Path("out").iterdir()) == []


def test_an_empty_shard_has_an_empty_part() -> None:
    succeed("predict", "my.fewset", "inbox/broken.jpg", "--shard", "0/2", "--parquet", "out")
    succeed("predict", "my.fewset", "inbox/broken.jpg", "--shard", "1/2", "--parquet", "out")
    assert sorted(parquet.read_table(path).num_rows for path in Path("out").iterdir()) == [0, 1]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["predict", "my.fewset", "inbox", "--shard", "0/2"], "give --parquet DIR"),
        (["predict", "my.fewset", "inbox", "--parquet", "o", "--csv", "a.csv"], "--csv does not go with"),
        (["predict", "my.fewset", "inbox", "--parquet", "o", "--together"], "--together does not go with"),
        (["predict", "my.fewset", "inbox", "--parquet", "o", "--shard", "2/2"], "expected I/N"),
        (["predict", "my.fewset", "inbox", "--parquet", "my.fewset"], "expected a directory"),
        (["embed", "tiny", "inbox", "--out", "o.npz"], "photos need --parquet"),
        (["embed", "tiny"], "an image set needs --out"),
        (["embed", "tiny", "--parquet", "o"], "name their folders"),
        (["embed", "tiny", "inbox", "--parquet", "o", "--data", "cub"], "--data does not go with"),
    ],
)
def test_wrong_options(words: list[str], told: str) -> None:
    assert told in fail(*words)
    assert not Path("o").exists()


@pytest.mark.slow
def test_under_torchrun_each_process_has_a_shard_of_its_own() -> None:
    Path("tiny.py").write_text(PLUGIN)
    words = "predict", "my.fewset", "inbox", "--parquet"
    torchrun(2, "-m", "fewset", *words, "out", "--shard", "0/1", "--plugin", "tiny.py")
    assert {path.name[:19] for path in Path("out").iterdir()} == {
        "part-00000-of-00002",
        "part-00001-of-00002",
    }
    succeed(*words, "alone")
    assert [row["file"] for row in rows("out")] == [row["file"] for row in rows("alone")]
    assert [row["class"] for row in rows("out")] == [row["class"] for row in rows("alone")]
