"""The photos of the README: birds of Sketchy, one of them filed under the wrong name."""

import shutil
from pathlib import Path
from zipfile import ZipFile

from tests.helpers.real_files import real_file

CLASSES = ("duck", "owl", "parrot", "penguin", "swan")


def write_birds(folder: Path) -> None:
    """`photos/` with five photos of each class, and a sixth that is a duck's; `new/` with others."""
    with ZipFile(real_file("sketchy.zip")) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".jpg"))

        def copy(label: str, number: int, target: str) -> None:
            own = [name for name in names if name.startswith(f"sketchy/Photo/{label}/")]
            path = folder / target
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(own[number]))

        for label in CLASSES:
            for number in range(5):
                copy(label, number, f"photos/{label}/{number + 1}.jpg")
        shutil.copy(folder / "photos/duck/2.jpg", folder / "photos/swan/6.jpg")
        for label, number in (("duck", 5), ("owl", 5), ("parrot", 5), ("swan", 6), ("teapot", 0)):
            copy(label, number, f"new/{label}.jpg")
    (folder / "new" / "unfinished.jpg").write_bytes((folder / "new" / "owl.jpg").read_bytes()[:2000])
