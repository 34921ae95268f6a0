import os
import shlex
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.data.images import importing
from fewset.data.images.decoding import Box, Decoded, decode
from fewset.data.images.importers import Entry, register_importer
from fewset.data.images.importing import import_set, split_classes
from fewset.data.images.store import SPLITS
from fewset.io.paths import recorded_path
from tests.helpers.trees import (
    Write,
    as_directory,
    as_zip,
    assert_holds,
    assert_nothing_was_written,
    both,
    folder,
    picture,
)

BROKEN = {"c1/1.png": b"", "c2/0.png": b"not an image", "c4/2.png": picture(0)[:200]}


@both
def test_bad_images_stop_the_import_and_are_listed(tmp_path: Path, write: Write) -> None:
    with pytest.raises(UserError, match="3 of 21 images cannot be decoded") as caught:
        import_set("folder", write({**folder(), **BROKEN}, tmp_path), size=11)
    message = str(caught.value)
    assert "c1/1.png: empty file" in message
    assert "c2/0.png: not an image of a known format" in message
    assert "c4/2.png: image file is truncated" in message
    assert "--skip-bad" in message
    assert_nothing_was_written()


@both
def test_bad_images_are_skipped_on_request(tmp_path: Path, write: Write) -> None:
    tree = {**folder(), **BROKEN}
    got = import_set("folder", write(tree, tmp_path), size=11, skip_bad=True)
    drawn = split_classes(7, 0)
    assert_holds(
        got,
        tree,
        {(SPLITS[drawn[int(name[1])]], name.split("/")[0], name) for name in tree if name not in BROKEN},
    )
    assert sorted(line.split(":")[0] for line in got.manifest["skipped"]) == sorted(BROKEN)
    assert "--skip-bad" in got.manifest["command"]


@both
def test_images_without_the_name_of_one_are_counted_and_named(tmp_path: Path, write: Write) -> None:
    got = import_set(
        "folder", write({**folder(), "c0/photo": picture(5), "c1/notes": b"text"}, tmp_path), size=11
    )
    assert len(got.labels) == 21
    (line,) = got.manifest["skipped"]
    assert line.startswith("c0/photo: an image, but its name does not end in .jpg, ")


def test_members_that_lead_out_of_a_zip_are_counted_and_named(tmp_path: Path) -> None:
    path = as_zip({**folder(), "../c0/a.png": picture(5), "/c0/b.png": picture(6)}, tmp_path)
    got = import_set("folder", path, size=11)
    assert len(got.labels) == 21
    lines = ["../c0/a.png: leads out of the zip file", "/c0/b.png: leads out of the zip file"]
    assert got.manifest["skipped"] == lines


def test_a_class_whose_name_is_not_text_is_refused(tmp_path: Path) -> None:
    root = as_directory(folder(), tmp_path)
    (root / "c0").rename(root / os.fsdecode(b"c\xff0"))
    with pytest.raises(UserError, match=r"the class .* has characters that cannot be printed; rename it"):
        import_set("folder", root, size=11)


def test_a_full_disk_is_one_line(tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory map on it would end the process by a signal (SIGBUS)."""
    monkeypatch.setenv("FEWSET_HOME", str(small_disk))
    with pytest.raises(UserError, match="No space left on device; make room"):
        import_set("folder", as_directory(folder(), tmp_path), "large", size=400)
    assert list(small_disk.rglob("*.*")) == []


def test_a_dangling_link_is_a_bad_image(tmp_path: Path) -> None:
    root = as_directory(folder(), tmp_path)
    (root / "c0/link.png").symlink_to(root / "nowhere.png")
    with pytest.raises(UserError, match=r"c0/link.png: .*No such file"):
        import_set("folder", root, size=11)


def test_a_damaged_member_of_a_zip_is_a_bad_image(tmp_path: Path) -> None:
    path = as_zip(folder(), tmp_path)
    data = bytearray(path.read_bytes())
    data[data.index(b"c3/1.png") + 100] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(UserError, match=r"1 of 21 images(.|\n)*c3/1.png.*cannot be read"):
        import_set("folder", path, size=11)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_import_leaves_nothing(
    tmp_path: Path, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "_CHUNK", 1)
    root = as_directory(folder(), tmp_path)
    calls = []

    def failing(*arguments: Any) -> Decoded:
        calls.append(threading.get_ident())
        if len(calls) == 5:
            raise error
        return decode(*arguments)

    monkeypatch.setattr(importing, "decode", failing)
    with pytest.raises(error):
        import_set("folder", root, size=11)
    assert_nothing_was_written()


def test_the_manifest_has_the_command_that_makes_the_set_again(tmp_path: Path) -> None:
    root = as_directory(folder(), tmp_path / "with space")
    plain = import_set("folder", root).manifest["command"]
    assert shlex.split(plain) == ["fewset", "data", "import", "folder", recorded_path(root), "--name", "pets"]
    full = import_set("folder", root, "my.pets", size=11, seed=3, skip_bad=True).manifest["command"]
    assert shlex.split(full)[5:] == ["--name", "my.pets", "--size", "11", "--seed", "3", "--skip-bad"]


def test_domains_and_origins_of_entries_are_numbered(tmp_path: Path) -> None:
    def entries(source: object) -> list[Entry]:  # noqa: ARG001
        return [
            Entry("c1/0.png", "b", "train", "sketch", "one"),
            Entry("c0/1.png", "a", "train", "photo", "two"),
            Entry("c0/0.png", "a", "train", "sketch", "one"),
        ]

    register_importer("new")(entries)
    got = import_set("new", as_directory(folder(), tmp_path), size=11)
    assert got.domain_names == ("photo", "sketch")
    assert got.domains is not None
    assert got.origins is not None
    assert got.domains.tolist() == [1, 0, 1]
    assert got.origins.tolist() == [0, 1, 0]


def test_images_that_are_no_files_are_turned_and_cut(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (11, 11, 3), dtype=np.uint8)

    def entries(source: object) -> list[Entry]:  # noqa: ARG001
        turned = [
            Entry(f"array/{n}", f"turned {n}", "train", quarter_turns=n, read=lambda: pixels)
            for n in range(4)
        ]
        return [*turned, Entry("cut", "cut", "train", box=Box(2, 3, 5, 5), read=lambda: pixels)]

    register_importer("new", size=11)(entries)
    got = import_set("new", as_directory({}, tmp_path))
    assert got.manifest["size"] == 11
    by_name = dict(zip((got.class_names[label] for label in got.labels), got.images, strict=True))
    for turns in range(4):
        np.testing.assert_array_equal(by_name[f"turned {turns}"], np.rot90(pixels, turns))
    np.testing.assert_array_equal(by_name["cut"], decode(pixels[3:8, 2:7], 11).pixels)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"kind": "mini"}, r"'mini'.*Known: cifar-fs, csv, cub, domains, fc100, folder"),
        ({"size": 0}, "size is 0"),
        ({"name": "../pets"}, "cannot be the name"),
        ({"name": "strokes"}, "'strokes' belongs to"),
    ],
)
def test_what_cannot_be_imported(given: dict[str, Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=problem):
        import_set(**{"kind": "folder", "source": as_directory(folder(), tmp_path), **given})
    assert_nothing_was_written()
