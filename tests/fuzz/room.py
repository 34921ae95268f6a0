"""The directory where commands read an input, beside sets, runs and photos that no input may change.

::

    home/    FEWSET_HOME: the image sets "tiny" and "tiny-2", the table "tiny-features"
    runs/    finished runs
    photos/  labelled photos, and the classifier that was made from them
    samples/ whole files of which readers damage copies
    user/    HOME and the directory of temporary files: nothing is written there
    work/    where a command runs: the input and what it writes; empty before each input
"""

import os
import shutil
from collections.abc import Iterable
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np

Snapshot = dict[str, tuple[int, ...]]
GENERATED = "home/sets/strokes", "home/sets/families"
"""The sets that the first command to name them makes."""


@dataclass(frozen=True)
class Room:
    root: Path

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def caches(self) -> Path:
        """Where libraries may keep caches of their own, beside the room."""
        return self.root.with_name("caches")

    @property
    def log(self) -> Path:
        return self.root.with_name(f"{self.root.name}.log")

    def copy(self, place: Path, folder: Path) -> Path:
        """A copy of a directory in a folder, to be damaged."""
        return Path(shutil.copytree(place, folder / place.name))

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
    """Make the sets, runs, photos and samples; takes some seconds."""
    from fewset.classify.classifier import FewShotClassifier
    from fewset.experiments.plugins import load_plugin
    from fewset.experiments.train_run import execute
    from tests.helpers.features import make_table
    from tests.helpers.photos import PLUGIN, write_photos
    from tests.helpers.results import per_task, write_run
    from tests.helpers.tiny_recipes import FEATURES, PRETRAIN, TRAIN, recipe
    from tests.helpers.tiny_set import make_tiny_set, spoiled_copy

    room = Room(root.resolve())
    for place in ("home", "runs", "user", "work"):
        (room.root / place).mkdir(parents=True)
    os.environ["FEWSET_HOME"] = str(room.root / "home")
    spoiled_copy(make_tiny_set(), "tiny-2", np.arange(3))
    make_table("tiny-features", shift=0)
    execute(recipe(PRETRAIN, epochs=1), "pretrain", room.runs / "pre")
    execute(recipe(TRAIN, epochs=1), "train", room.runs / "feat")
    execute(recipe(FEATURES, epochs=1), "train", room.runs / "features")
    write_run(room.runs, "proto")
    write_run(room.runs, "adapted", per_task(1), per_task(2), method="FEAT")
    photos = room.root / "photos"
    write_photos(photos / "labelled", shots=3)
    plugin = photos / "tiny_encoder.py"
    plugin.write_text(PLUGIN)
    load_plugin(plugin)
    FewShotClassifier("tiny").fit(photos / "labelled").save(photos / "my.fewset")
    _make_samples(room, room.root / "samples")
    return room


def _make_samples(room: Room, samples: Path) -> None:
    from fewset.classify.predict import run as predicting
    from fewset.core.errors import UserError
    from fewset.experiments.recipes import recipe_text
    from tests.fuzz.judge import run_command
    from tests.helpers.containers import packed_zip
    from tests.helpers.damage import json_text
    from tests.helpers.encoders import write_huggingface, write_onnx
    from tests.helpers.feature_files import arrays, save_hdf5
    from tests.helpers.photos import photo_files, write_photos
    from tests.helpers.tiny_recipes import TRAIN, recipe
    from tests.helpers.trees import Tree, folder, picture, tables, write_tree

    write_onnx(samples / "onnx" / "net.onnx", settings={"size": 19, "mean": [0.5] * 3, "std": [0.5] * 3})
    write_huggingface(samples / "vit")
    write_photos(samples / "images", 1, first=1)
    for suffix, data in photo_files().items():
        (samples / "images" / "grass" / f"0.{suffix}").write_bytes(data)

    paths = sorted(write_photos(samples / "photos", 3).glob("*/*.png"))
    rows = [f"{path.relative_to(samples / 'photos')},{path.parent.name}" for path in paths]
    (samples / "photos" / "photos.csv").write_text("\n".join(["path,label", *rows]))

    write_tree(tables(), samples / "tables")
    names = [f"{label:03}.Bird_{label}/{number}.jpg" for label in (1, 2, 3) for number in range(2)]
    numbered = list(enumerate(names, start=1))
    lists = {
        "images": [f"{number} {name}" for number, name in numbered],
        "image_class_labels": [f"{number} {int(name[:3])}" for number, name in numbered],
        "bounding_boxes": [f"{number} 1.0 2.0 9.0 9.0" for number, _ in numbered],
        "classes": [f"{label} {label:03}.Bird_{label}" for label in (1, 2, 3)],
    }
    cub = {f"{name}.txt": "\n".join(lines).encode() for name, lines in lists.items()}
    write_tree(cub | {f"images/{name}": picture(1, "JPEG") for name in names}, samples / "cub")

    pictures = list(folder(1, 4).values())
    domains = "a/x/1.png", "a/y/1.png", "b/x/1-1.png", "b/y/2.png"
    omniglot = "images_background/Latin/character01/1.png", "images_evaluation/ULOG/character01/1.png"
    trees: dict[str, Tree] = {
        "folder": folder(3, 2),
        "csv": tables(),
        "domains": dict(zip(domains, pictures, strict=True)),
        "omniglot": dict(zip(omniglot, pictures[:2], strict=True)),
    }
    zips = {f"{kind}.zip": packed_zip(list(tree.items())) for kind, tree in trees.items()}
    write_tree(zips, samples / "zips")

    (samples / "low-shot").mkdir()
    content = {"all_feats": arrays()["features"], "all_labels": arrays()["labels"]}
    for name in ("train", "val"):
        save_hdf5(samples / "low-shot" / name, content)
    classes = {"base_classes": [0, 2], "novel_classes": [1, 3, 4]}
    classes |= {f"{key}_{number}": value for key, value in classes.items() for number in (1, 2)}
    (samples / "low-shot" / "label_idx.json").write_text(json_text(classes))

    training = samples / "training"  # a run that has not ended, and the one from which it starts
    for name in ("pre", "feat"):
        shutil.copytree(room.runs / name, training / name)
    (training / "feat" / "result.json").unlink()
    (training / "feat.toml").write_text(recipe_text(recipe(TRAIN, epochs=1)))

    (samples / "answers").mkdir()
    words = "predict ../photos/my.fewset ../photos/labelled --plugin ../photos/tiny_encoder.py --csv"
    with chdir(room.work), patch.object(predicting, "_finish", side_effect=UserError("stopped")):
        run_command((*words.split(), "../samples/answers/a.csv"))
