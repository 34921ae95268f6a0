from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.data.images.decoding import decode
from fewset.data.images.importers import IMPORTERS, Entry
from fewset.data.images.importing import import_set, split_classes
from fewset.data.images.sources import open_source
from fewset.data.images.store import SPLITS
from tests.helpers.real_files import real_file
from tests.helpers.trees import (
    Tree,
    Write,
    as_directory,
    assert_holds,
    assert_nothing_was_written,
    both,
    picture,
)

DOMAINS = ("Art", "Clipart", "Product", "Real World")
CLASSES = ("Alarm_Clock", "Backpack", "Batteries", "Bed", "Bike")


def officehome(top: str = "") -> Tree:
    """Numbers begin anew in each class of each domain; two files beside the images."""
    tree = {
        f"{top}{domain}/{name}/{number:05}.jpg": picture(seed * 100 + number, "JPEG")
        for seed, (domain, name) in enumerate((domain, name) for domain in DOMAINS for name in CLASSES)
        for number in range(1, 4)
    }
    return {**tree, f"{top}ImageInfo.csv": b"x", f"{top}imagelist.txt": b"x"}


def sketchy() -> Tree:
    """Two photos a class, of which the first has three sketches and the second none."""
    return {
        f"{domain}/{name}/{file}": picture(seed)
        for seed, name in enumerate(("airplane", "ant", "ape"))
        for domain, files in {
            "Photo": ("n02691156_10151.jpg", "n02691156_9.jpg"),
            "Sketch": tuple(f"n02691156_10151-{number}.png" for number in (1, 2, 13)),
        }.items()
        for file in files
    }


@both
@pytest.mark.parametrize("top", ["", "OfficeHomeDataset_10072016/"])
@pytest.mark.parametrize("seed", [0, 3])
def test_officehome(tmp_path: Path, write: Write, top: str, seed: int) -> None:
    tree = officehome(top)
    got = import_set("domains", write(tree, tmp_path), size=11, seed=seed)
    drawn = split_classes(len(CLASSES), seed, (25, 15, 25))
    images = [file for file in tree if file.endswith(".jpg")]
    expected = {
        (SPLITS[drawn[CLASSES.index(name)]], name, file)
        for file in images
        for name in [file.removeprefix(top).split("/")[1]]
    }
    assert_holds(got, tree, expected)
    assert got.domain_names == DOMAINS
    order = sorted(expected, key=lambda item: (SPLITS.index(item[0]), item[1], item[2]))
    assert got.domains is not None
    assert [got.domain_names[domain] for domain in got.domains] == [
        file.removeprefix(top).split("/")[0] for _, _, file in order
    ]
    assert got.origins is None


def origins_of(tree: Tree, place: Path) -> dict[str, str | None]:
    with open_source(as_directory(tree, place)) as source:
        return {entry.file: entry.origin for entry in IMPORTERS["domains"].entries(source)}


def test_a_sketch_and_its_photo_share_an_origin(tmp_path: Path) -> None:
    origins = origins_of(sketchy(), tmp_path)
    for name in ("airplane", "ant", "ape"):
        traced = origins[f"Photo/{name}/n02691156_10151.jpg"]
        for number in (1, 2, 13):
            assert origins[f"Sketch/{name}/n02691156_10151-{number}.png"] == traced
        assert origins[f"Photo/{name}/n02691156_9.jpg"] != traced
    assert sorted(Counter(origins.values()).values()) == [1, 1, 1, 4, 4, 4]


@pytest.mark.parametrize(
    "files",
    [
        ["A/c/00001.jpg", "B/c/00001.jpg"],  # numbers that repeat
        ["A/c/cup-1.jpg", "A/c/cup-2.jpg", "B/c/mug-1.jpg"],  # counted, not derived
        ["A/c/cup.jpg", "A/c/cup-1.jpg", "B/c/mug.jpg"],  # within a domain
        ["A/c/cup.jpg", "A/d/x.jpg", "B/d/cup-1.jpg", "B/c/x.jpg"],  # another class
        ["A/c/cup.jpg", "B/c/cup-blue.jpg"],
    ],
)
def test_what_is_no_origin(tmp_path: Path, files: list[str]) -> None:
    assert set(origins_of(dict.fromkeys(files, b""), tmp_path).values()) == {None}


def test_beside_derived_files_equal_names_mean_nothing(tmp_path: Path) -> None:
    files = ["A/c/1.jpg", "B/c/1.jpg", "A/c/cup.jpg", "B/c/cup-1.jpg", "B/c/mug-1.jpg"]
    origins = origins_of(dict.fromkeys(files, b""), tmp_path)
    assert origins["A/c/cup.jpg"] == origins["B/c/cup-1.jpg"]
    assert len(set(origins.values())) == 4


def test_a_class_that_a_domain_lacks_is_named(tmp_path: Path) -> None:
    tree = officehome()
    tree = {file.replace("Clipart/Bed", "Clipart/bed"): data for file, data in tree.items()}
    with pytest.raises(UserError, match="no images in Art/bed, Clipart/Bed, Product/bed, Real World/bed"):
        import_set("domains", as_directory(tree, tmp_path))
    assert_nothing_was_written()


@pytest.mark.parametrize("stray", ["stray.png", "Art/stray.png", "Art/Bed/deeper/stray.png"])
def test_an_image_out_of_place_is_named(tmp_path: Path, stray: str) -> None:
    with pytest.raises(UserError, match=f"{stray} in .*pets does not fit the layout of domains"):
        import_set("domains", as_directory({**officehome(), stray: picture(0)}, tmp_path))


def test_one_domain_is_a_folder(tmp_path: Path) -> None:
    tree = {file: data for file, data in officehome().items() if file.startswith("Art/")}
    with pytest.raises(UserError, match=r"one domain, 'Art', expected two or more; import the set as folder"):
        import_set("domains", as_directory(tree, tmp_path))


@pytest.mark.slow
def test_the_real_sketchy() -> None:
    with open_source(real_file("sketchy.zip")) as source:
        entries = IMPORTERS["domains"].entries(source)
        assert len(entries) == 6_250
        counts = Counter((entry.domain, entry.class_name) for entry in entries)
        assert len(counts) == 250
        assert set(counts.values()) == {25}
        by_origin: dict[str | None, list[Entry]] = {}
        for entry in entries:
            by_origin.setdefault(entry.origin, []).append(entry)
        for origin, items in by_origin.items():
            photos = [entry.file for entry in items if entry.domain == "Photo"]
            assert len(photos) == 1, origin
            stem = Path(photos[0]).stem
            assert all(
                Path(entry.file).stem.rpartition("-")[0] == stem for entry in items if entry.domain != "Photo"
            )
        for entry in entries[::97]:
            pixels, side = decode(source.read(entry.file), 84)
            assert pixels.std() > 0
            assert side == 92
    assert np.bincount(split_classes(125, 0, IMPORTERS["domains"].shares)).tolist() == [48, 29, 48]
