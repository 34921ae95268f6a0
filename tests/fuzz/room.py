"""Where an input is read: a directory with sets, runs and photos beside it that no input may change.

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

WATCHED_ELSEWHERE = "HOME", "TMPDIR"
Snapshot = dict[str, tuple[int, ...]]


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

    def snapshot(self, owned: Iterable[str] = ()) -> Snapshot:
        """Everything beside `work`: of a file its number, size and time of change, which cannot be set."""
        left_out = {self.work, *(self.root / place for place in owned)}
        found: Snapshot = {}
        for folder, folders, files in os.walk(self.root):
            folders[:] = [name for name in folders if Path(folder, name) not in left_out]
            found |= {str(Path(folder, name)): () for name in folders}
            for name in files:
                status = os.lstat(os.path.join(folder, name))  # noqa: PTH118, many times for each input
                found[f"{folder}/{name}"] = status.st_ino, status.st_size, status.st_ctime_ns
        return found


def build_room(root: Path) -> Room:
    """Make the sets, runs and photos; takes some seconds."""
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
    write_photos(room.root / "photos" / "labelled", shots=3)
    room.plugin.write_text(PLUGIN)
    _fit(room)
    return room


def copy_room(room: Room, root: Path) -> Room:
    """Another room with the same content."""
    shutil.copytree(room.root, root, symlinks=True)
    return Room(root.resolve())


def _fit(room: Room) -> None:
    from fewset.classify.classifier import FewShotClassifier
    from fewset.experiments.plugins import load_plugin

    load_plugin(room.plugin)
    FewShotClassifier("tiny").fit(room.root / "photos" / "labelled").save(room.classifier)
