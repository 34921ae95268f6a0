import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from fewset.core.errors import UserError
from fewset.data import manifest
from fewset.data.images import store
from fewset.data.images.store import SPLITS, list_sets, open_set, set_path, write_store
from fewset.data.manifest import home

ITEMS, SIZE, CLASSES = 23, 7, 5
COMMAND = "fewset data import folder /somewhere --name birds"


def columns() -> dict[str, Any]:
    labels = np.arange(ITEMS) % CLASSES
    return {
        "size": SIZE,
        "labels": labels,
        "class_names": [f"class {number}" for number in range(CLASSES)],
        "splits": np.array([0, 0, 1, 2, 2])[labels],
        "domains": np.arange(ITEMS) % 3,
        "domain_names": ["chalk", "ink", "paint"],
        "origins": np.arange(ITEMS) // 2,
        "source": "a test",
        "command": COMMAND,
    }


def pixels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (ITEMS, SIZE, SIZE, 3), dtype=np.uint8)


def make(name: str = "birds", **changes: Any) -> Path:
    path = set_path(name)
    with write_store(path, **{**columns(), **changes}) as draft:
        draft.images[:] = pixels()
    return path


@pytest.fixture
def birds() -> Path:
    return make()


def test_what_was_written_is_read(birds: Path) -> None:
    opened, written = open_set("birds"), columns()
    assert (opened.name, opened.path) == ("birds", birds)
    np.testing.assert_array_equal(opened.images, pixels())
    np.testing.assert_array_equal(opened.labels, written["labels"])
    np.testing.assert_array_equal(opened.splits, written["splits"])
    np.testing.assert_array_equal(opened.domains, written["domains"])
    np.testing.assert_array_equal(opened.origins, written["origins"])
    assert opened.class_names == tuple(written["class_names"])
    assert opened.domain_names == ("chalk", "ink", "paint")
    assert repr(opened) == "ImageSet('birds': 23 images of 7 x 7, 5 classes)"
    assert isinstance(opened.images, np.memmap)
    assert not opened.images.flags.writeable
    opened.verify()


def test_the_manifest_counts(birds: Path) -> None:
    manifest = open_set(birds).manifest
    per_class = np.bincount(np.arange(ITEMS) % CLASSES).tolist()
    assert manifest["counts"] == {
        "train": {"items": sum(per_class[:2]), "classes": 2},
        "val": {"items": per_class[2], "classes": 1},
        "test": {"items": sum(per_class[3:]), "classes": 2},
    }
    assert (manifest["items"], manifest["size"], manifest["format"]) == (ITEMS, SIZE, 1)
    assert (manifest["source"], manifest["command"], manifest["skipped"]) == ("a test", COMMAND, [])


@pytest.mark.parametrize("split", [*SPLITS, "all"])
@pytest.mark.parametrize("domain", [None, "chalk", "ink", "paint"])
def test_select(birds: Path, split: str, domain: str | None) -> None:
    opened = open_set(birds)
    expected = [
        row
        for row in range(ITEMS)
        if split in ("all", SPLITS[opened.splits[row]])
        and domain in (None, opened.domain_names[opened.domains[row]])  # type: ignore[index]
    ]
    selection = opened.select(split, domain)
    assert selection.rows.tolist() == expected
    assert selection.labels.tolist() == [row % CLASSES for row in expected]
    assert selection.class_names == opened.class_names


def test_select_lists_what_is_known(birds: Path) -> None:
    opened = open_set(birds)
    with pytest.raises(UserError, match=r"'validation'.*Known: all, test, train, val"):
        opened.select("validation")
    with pytest.raises(UserError, match=r"'inc'.*Did you mean 'ink'.*Known: chalk, ink, paint"):
        opened.select("train", "inc")


def test_a_split_without_items_is_refused() -> None:
    make(splits=np.zeros(ITEMS, dtype=np.int64))
    with pytest.raises(
        UserError, match="the split 'val' of 'birds' has no items; its splits: train 23, val 0"
    ):
        open_set("birds").select("val")


def test_the_digest_depends_on_the_content_alone(birds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = open_set(birds).digest
    monkeypatch.setattr(manifest, "time", SimpleNamespace(time=lambda: 10**9 + 0.5))
    assert open_set(make("other", source="elsewhere", command="another")).digest == digest
    assert open_set(make("renamed", class_names=list("abcde"))).digest != digest
    assert open_set(make("moved", splits=np.zeros(ITEMS, dtype=int))).digest != digest
    with write_store(set_path("pixel"), **columns()) as draft:
        draft.images[:] = pixels()
        draft.images[11, 3, 5, 1] ^= 1
    assert open_set("pixel").digest != digest


def test_skipped_rows_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_ROWS", 3)
    skipped = [row for row in range(ITEMS) if row % CLASSES == 1] + [0, 22]
    with write_store(set_path("birds"), **columns()) as draft:
        draft.images[:] = pixels()
        draft.skipped.update({row: f"{row}.jpg: broken" for row in skipped})
    opened, written = open_set("birds"), columns()
    kept = [row for row in range(ITEMS) if row not in skipped]
    np.testing.assert_array_equal(opened.images, pixels()[kept])
    names = [opened.class_names[label] for label in opened.labels]
    assert names == [f"class {row % CLASSES}" for row in kept]
    assert opened.class_names == ("class 0", "class 2", "class 3", "class 4")  # class 1 has no image left
    np.testing.assert_array_equal(opened.splits, written["splits"][kept])
    np.testing.assert_array_equal(opened.origins, written["origins"][kept])
    assert opened.manifest["skipped"] == [f"{row}.jpg: broken" for row in sorted(skipped)]
    assert opened.manifest["items"] == len(kept)
    assert sorted(file.name for file in opened.path.iterdir()) == ["images.npy", "items.npy", "manifest.json"]
    opened.verify()


def test_a_set_without_images_is_refused() -> None:
    with (
        pytest.raises(UserError, match="no image is left"),
        write_store(set_path("birds"), **columns()) as draft,
    ):
        draft.skipped.update(dict.fromkeys(range(ITEMS), "broken"))
    assert list((home() / "sets").iterdir()) == []


def edit(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        old = file.read(1)
        file.seek(place)
        file.write(bytes([old[0] ^ 1]))


def edit_manifest(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    change(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda path: os.truncate(path / "images.npy", 1000), "images.npy has 1000 bytes, expected"),
        (lambda path: (path / "items.npy").unlink(), "items.npy is missing"),
        (lambda path: edit(path / "images.npy", 500), "images.npy was edited"),
        (lambda path: edit(path / "items.npy", 200), "items.npy was edited"),
        (lambda path: edit_manifest(path, lambda manifest: manifest["class_names"].reverse()), "was edited"),
        (lambda path: edit_manifest(path, lambda manifest: manifest.pop("counts")), "'counts'"),
        (lambda path: edit_manifest(path, lambda manifest: manifest.update(format=99)), "it has format 99"),
    ],
)
def test_a_damaged_set_is_refused_with_the_remedy(
    birds: Path, damage: Callable[[Path], object], complaint: str
) -> None:
    damage(birds)
    with pytest.raises(UserError, match=complaint) as caught:
        open_set("birds")
    assert f"import it again: {COMMAND}" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("source_size", {"median": 84}, "lacks 'source_size.smallest'"),
        ("colour", "red", "unknown manifest key 'colour'"),
        ("counts", {"train": {"items": 23, "classes": 5}}, "counts"),
        ("domain_names", 3, "domain_names is 3"),
        ("files", {"\0": {"bytes": 3, "sha256": ""}}, "value of files"),
    ],
)
def test_a_manifest_with_a_wrong_type_is_refused(
    birds: Path, key: str, value: object, complaint: str
) -> None:
    def change(found: dict[str, Any]) -> None:
        found[key] = value
        content = {name: found[name] for name in store.LAYOUT.content}
        found["digest"] = manifest.sha256_of(json.dumps(content, sort_keys=True))

    edit_manifest(birds, change)
    with pytest.raises(UserError, match=f"{complaint}.*import it again"):
        open_set(birds)


def changed_items(**changes: Any) -> np.ndarray:
    given = {"label": np.arange(ITEMS) % CLASSES, "split": np.zeros(ITEMS, np.int64)} | changes
    items = np.empty(ITEMS, dtype=[(name, column.dtype) for name, column in given.items()])
    for name, column in given.items():
        items[name] = column
    return items


FOREIGN = {
    "a class too many": ("items", lambda: changed_items(label=np.full(ITEMS, CLASSES)), "label"),
    "a negative class": ("items", lambda: changed_items(label=np.arange(ITEMS) - 1), "label"),
    "classes that are not integers": ("items", lambda: changed_items(label=np.ones(ITEMS)), "float64"),
    "an origin elsewhere": ("items", lambda: changed_items(origin=np.full(ITEMS, 99)), "origin"),
    "another column": ("items", lambda: changed_items(colour=np.zeros(ITEMS, np.int64)), "'colour'"),
    "no columns": ("items", lambda: np.zeros(ITEMS), "'label'"),
    "items missing": ("items", lambda: changed_items()[1:], "22 items, and images of shape"),
    "objects": ("items", lambda: np.array([object()] * ITEMS), "type object"),
    "images that are not bytes": ("images", lambda: pixels().astype(np.float32), "float32"),
}


@pytest.mark.parametrize(("name", "make_array", "complaint"), FOREIGN.values(), ids=FOREIGN)
def test_arrays_that_do_not_fit_are_refused_though_their_digests_do(
    birds: Path, name: str, make_array: Callable[[], np.ndarray], complaint: str
) -> None:
    np.save(birds / f"{name}.npy", make_array())
    known = json.loads((birds / "manifest.json").read_text())
    for key in ("format", "created_by", "written", "files", "digest"):
        del known[key]
    store.LAYOUT.seal(birds, ("images.npy", "items.npy"), known)
    with pytest.raises(UserError, match=complaint) as caught:
        open_set("birds")
    assert "\n" not in str(caught.value)
    assert "import it again" in str(caught.value)


@pytest.mark.parametrize("name", ["../../x", "/x", "..", "a\nb", ""])
def test_a_domain_that_would_lead_elsewhere_is_refused(birds: Path, name: str) -> None:
    with pytest.raises(UserError, match="cannot be the name of a folder or a file"):
        make("pets", domain_names=["chalk", name, "paint"])
    known = json.loads((birds / "manifest.json").read_text())
    for key in ("format", "created_by", "written", "files", "digest"):
        del known[key]
    store.LAYOUT.seal(birds, ("images.npy", "items.npy"), {**known, "domain_names": ["chalk", name, "paint"]})
    with pytest.raises(UserError, match="cannot be the name of a folder or a file"):
        open_set("birds")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null"])
def test_an_unreadable_manifest_is_refused_with_the_remedy(birds: Path, text: str) -> None:
    (birds / "manifest.json").write_text(text)
    with pytest.raises(UserError, match=r"import it again: fewset data import KIND SOURCE --name birds"):
        open_set(birds)


def test_a_large_file_is_read_as_a_whole_only_when_its_date_has_changed(
    birds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "_SMALL", 0)
    read: list[str] = []
    sha256 = manifest.file_digest
    monkeypatch.setattr(manifest, "file_digest", lambda path: (read.append(path.name), sha256(path))[1])
    open_set(birds)
    assert read == []
    os.utime(birds / "images.npy")
    open_set(birds)
    assert read == ["images.npy"]
    edit_manifest(birds, lambda manifest: manifest.update(written=0))
    open_set(birds)
    assert read == ["images.npy", "images.npy", "items.npy"]
    edit(birds / "images.npy", 500)
    with pytest.raises(UserError, match=r"images.npy was edited"):
        open_set(birds)


def test_verify_finds_what_opening_trusts(birds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "_SMALL", 0)
    date = (birds / "images.npy").stat().st_mtime
    edit(birds / "images.npy", 500)
    os.utime(birds / "images.npy", (date, date))
    opened = open_set(birds)
    with pytest.raises(UserError, match=r"images.npy was edited.*import it again"):
        opened.verify()


def test_a_set_may_be_moved_and_opened_by_its_path(birds: Path, tmp_path: Path) -> None:
    digest = open_set(birds).digest
    shutil.copytree(birds, tmp_path / "copy", copy_function=shutil.copyfile)
    opened = open_set(tmp_path / "copy")
    assert (opened.name, opened.digest) == ("copy", digest)
    assert open_set(str(tmp_path / "copy")).digest == digest
    with pytest.raises(UserError, match=r"no image set at .*nowhere"):
        open_set(tmp_path / "nowhere")


def test_an_unknown_name_lists_the_known_ones(birds: Path) -> None:
    make("fish")
    (birds.parent / ".left.partial").mkdir()
    assert list_sets() == ["birds", "fish"]
    with pytest.raises(UserError, match="unknown image set 'bird'") as caught:
        open_set("bird")
    assert "Did you mean 'birds'?" in str(caught.value)
    assert "Known: birds, families, fish, strokes." in str(caught.value)
    assert "fewset data import KIND SOURCE --name bird" in str(caught.value)


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "-option", "a/b", "../a", "a\\b", "a b", "a" * 101]
)
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="cannot be the name of an image set"):
        set_path(name)


@pytest.mark.parametrize("name", ["families", "strokes"])
def test_an_embedded_set_is_generated_at_first_use(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def write(path: Path, seed: int = 0) -> None:
        calls.append((path, seed))
        make(name, command=None)

    monkeypatch.setattr(f"fewset.data.images.{name}.write_{name}", write)
    assert open_set(name).digest == open_set(name).digest
    assert calls == [(set_path(name), 0)]
    edit(set_path(name) / "items.npy", 200)
    with pytest.raises(UserError, match=rf"remove .*{name}, and it is generated again"):
        open_set(name)


def test_a_file_is_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("FEWSET_HOME", str(file))
    with pytest.raises(UserError, match=r"FEWSET_HOME is .*file, which is a file; set it to a directory"):
        home()


def test_home_without_the_variable_is_the_users_data_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEWSET_HOME")
    assert home().name == "fewset"
    monkeypatch.setenv("FEWSET_HOME", "~/sets of images")
    assert home() == Path.home() / "sets of images"


def test_a_set_that_another_process_generates_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise AssertionError(f"{path} is generated twice")

    monkeypatch.setattr("fewset.data.images.strokes.write_strokes", refuse)
    path = set_path("strokes")
    path.parent.mkdir(parents=True)
    with ThreadPoolExecutor() as pool:
        with FileLock(path.with_name(".strokes.lock")):  # as the other process holds it
            waiting = pool.submit(store._generate, path)
            make("strokes")
        waiting.result()
    assert open_set("strokes").path == path
