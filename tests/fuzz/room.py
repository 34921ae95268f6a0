"""The directory where commands read an input, beside sets, runs and photos that no input may change.

::

    home/   FEWSET_HOME: the image sets "tiny" and "tiny-2", the table "tiny-features"
    runs/   finished runs
    photos/ labelled photos, and the classifier that was made from them
    user/   HOME and the directory of temporary files: nothing is written there
    work/   where a command runs: the input and what it writes; empty before each input
"""

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.helpers.photos import PLUGIN, write_photos

Snapshot = dict[str, tuple[int, ...]]
GENERATED = "home/sets/strokes", "home/sets/families"
"""The sets that the first command to name them makes."""


@dataclass(frozen=True)
class Room:
    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def classifier(self) -> Path:
        return self.root / "photos" / "my.fewset"

    @property
    def plugin(self) -> Path:
        """Makes the encoder "tiny" known."""
        return self.root / "photos" / "tiny_encoder.py"

    @property
    def labelled(self) -> Path:
        return self.root / "photos" / "labelled"

    @property
    def tiny(self) -> tuple[object, ...]:
        """The options that choose the encoder "tiny"."""
        return "--encoder", "tiny", "--plugin", self.plugin

    @property
    def caches(self) -> Path:
        """Where libraries may keep caches of their own, beside the room."""
        return self.root.with_name(f"{self.root.name}-caches")

    @property
    def log(self) -> Path:
        return self.root.with_name(f"{self.root.name}.log")

    def copy(self, place: Path) -> Path:
        """A copy of a part of the room, to be damaged."""
        return Path(shutil.copytree(place, self.work / place.name))

    def enter(self) -> None:
        """From now on this process works here."""
        for name, place in (("FEWSET_HOME", "home"), ("HOME", "user"), ("TMPDIR", "user")):
            os.environ[name] = str(self.root / place)
        os.chdir(self.work)

    def clear(self, owned: Iterable[str] = ()) -> None:
        """Make the room as it was: `owned` are the places beside `work` where a command may write."""
        for place in owned:
            shutil.rmtree(self.root / place, ignore_errors=True)
        for path in self.work.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def snapshot(self, owned: Iterable[str]) -> Snapshot:
        """Everything beside `work`: of a file its inode, size and time of change, which cannot be set."""
        left_out = {str(self.root / place) for place in ("work", *owned, *GENERATED)}
        found: Snapshot = {}
        for folder, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if f"{folder}/{name}" not in left_out]
            found |= {f"{folder}/{name}": () for name in folders}
            for name in files:
                status = os.lstat(f"{folder}/{name}")
                found[f"{folder}/{name}"] = status.st_ino, status.st_size, status.st_ctime_ns
        return found

    def partial_files(self) -> set[str]:
        """Files under the names that they have while they are written."""
        return set(map(str, self.work.rglob("*.partial")))


def build_room(root: Path) -> Room:
    """Make the sets, runs and photos; takes some seconds."""
    from fewset.classify.classifier import FewShotClassifier
    from fewset.experiments.plugins import load_plugin
    from fewset.experiments.train_run import execute
    from tests.helpers.features import make_table
    from tests.helpers.results import per_task, write_run
    from tests.helpers.tiny_recipes import FEATURES, PRETRAIN, TRAIN, recipe
    from tests.helpers.tiny_set import make_tiny_set, spoiled_copy

    room = Room(root.resolve())
    for place in ("home", "runs", "user", "work"):
        (room.root / place).mkdir(parents=True)
    os.environ["FEWSET_HOME"] = str(room.home)
    spoiled_copy(make_tiny_set(), "tiny-2", np.arange(3))
    make_table("tiny-features", shift=0)
    execute(recipe(PRETRAIN, epochs=1), "pretrain", room.runs / "pre")
    execute(recipe(TRAIN, epochs=1), "train", room.runs / "feat")
    execute(recipe(FEATURES, epochs=1), "train", room.runs / "features")
    write_run(room.runs, "proto")
    write_run(room.runs, "adapted", per_task(1), per_task(2), method="FEAT")
    write_photos(room.labelled, shots=3)
    room.plugin.write_text(PLUGIN)
    load_plugin(room.plugin)
    FewShotClassifier("tiny").fit(room.labelled).save(room.classifier)
    return room
