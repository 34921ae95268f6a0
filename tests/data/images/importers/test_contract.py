"""What every importer must do. A newly registered one is tested here without being named."""

from pathlib import Path

import pytest

from fewset.core.errors import UserError
from fewset.data.images.importers import IMPORTERS, Entry
from fewset.data.images.importing import import_set
from fewset.data.images.sources import open_source
from fewset.data.images.store import SPLITS
from fewset.data.manifest import home
from tests.helpers.command_line import fail
from tests.helpers.trees import Tree, Write, as_directory, as_zip, both, folder, picture, tables

every_importer = pytest.mark.parametrize("kind", IMPORTERS)

NO_IMAGES: dict[str, Tree] = {
    "empty": {},
    "text": {"README.md": b"# A set\n", "notes/list.txt": b"one\ntwo\n", "code/read.py": b"1 / 0\n"},
    "hidden": {".images/a.png": picture(0), "__MACOSX/c0/a.png": picture(1)},
}
# Files that the layouts look for: whatever is in them, an importer must not stumble over it.
NAMES = [
    *(f"{split}.csv" for split in SPLITS),
    *(f"split/{split}.csv" for split in SPLITS),
    *("images.txt", "image_class_labels.txt", "bounding_boxes.txt", "classes.txt", "images/001.Bird/a.jpg"),
    *(f"mini-imagenet-cache-{split}.pkl" for split in SPLITS),
    *(f"miniImageNet_category_split_{part}.pickle" for part in ("train_phase_train", "val", "test")),
    *(f"{split}_{ending}" for split in SPLITS for ending in ("images_png.pkl", "images.npz", "labels.pkl")),
    *(f"images_{part}/Latin/character01/0001_01.png" for part in ("background", "evaluation")),
    "features.hdf5",
]
CONTENTS = {
    "nothing": b"",
    "noise": bytes(range(256)) * 3,
    "text": b"filename,label\n1 001.Bird/a.jpg\n",
    "a pickled list": b"\x80\x02]q\x00.",
    "a zip file": b"PK\x03\x04" + bytes(30),
}
# Layouts that one importer or another takes.
LAYOUTS: dict[str, Tree] = {
    "class/image": folder(),
    "split/class/image": {
        f"{SPLITS[n // 7]}/{name}": data for n, (name, data) in enumerate(folder().items())
    },
    "domain/class/image": {f"{domain}/{name}": data for domain in "ab" for name, data in folder(3).items()},
    "tables": tables(),
    "images anywhere": {"a.png": picture(0), "b/c/d/e/f.png": picture(1), "g/h.png": picture(2)},
}


def refused(kind: str, source: Path) -> str:
    """The message of an import that must fail, and leave nothing behind."""
    with pytest.raises(UserError) as caught:
        import_set(kind, source, size=8)
    assert not list(home().rglob("*.*"))
    return str(caught.value)


@every_importer
@both
@pytest.mark.parametrize("tree", NO_IMAGES.values(), ids=NO_IMAGES)
def test_a_source_without_images_is_refused_and_named(
    kind: str, write: Write, tree: Tree, tmp_path: Path
) -> None:
    source = write(tree, tmp_path)
    message = refused(kind, source)
    assert str(source) in message
    assert "\n" not in message


@every_importer
def test_what_is_no_source_is_refused(kind: str, tmp_path: Path) -> None:
    assert "does not exist" in refused(kind, tmp_path / "absent")
    (tmp_path / "photo.png").write_bytes(picture(0))
    assert "neither a directory nor a complete zip file" in refused(kind, tmp_path / "photo.png")
    (tmp_path / "half.zip").write_bytes(as_zip(folder(), tmp_path).read_bytes()[:500])
    assert "neither a directory nor a complete zip file" in refused(kind, tmp_path / "half.zip")


@every_importer
def test_the_command_says_it_on_one_line(kind: str, tmp_path: Path) -> None:
    message = fail("data", "import", kind, as_directory({}, tmp_path))
    assert "\n" not in message


@every_importer
@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_known_names_with_other_contents_are_refused(kind: str, content: bytes, tmp_path: Path) -> None:
    refused(kind, as_directory(dict.fromkeys(NAMES, content), tmp_path / "all"))


@every_importer
@pytest.mark.parametrize("tree", LAYOUTS.values(), ids=LAYOUTS)
def test_a_directory_is_read_as_a_zip_file_is(kind: str, tree: Tree, tmp_path: Path) -> None:
    """Or refused alike; what is listed is in the source, in known splits, each image once a class."""
    listed = [_listed(kind, write(tree, tmp_path)) for write in (as_directory, as_zip)]
    assert listed[0] == listed[1]
    for entry in listed[0] or ():
        assert entry.read is not None or entry.file in tree
        assert entry.split in (None, *SPLITS)
        assert entry.class_name
    places = [(entry.file, entry.class_name) for entry in listed[0] or ()]
    assert len(set(places)) == len(places)


def _listed(kind: str, source: Path) -> list[Entry] | None:
    with open_source(source) as opened:
        try:
            return sorted(IMPORTERS[kind].entries(opened))
        except UserError:
            return None
