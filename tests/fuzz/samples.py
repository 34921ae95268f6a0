"""The readers of files of which `build_room` makes a whole one: a row each."""

import json
from contextlib import suppress
from pathlib import Path
from random import Random

from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from fewset.io.files import digest_path, file_digest
from tests.fuzz.case import READERS, TINY, Case, Sample
from tests.fuzz.page import ROOT
from tests.fuzz.room import Room


def sign(file: Path) -> None:
    digest_path(file).write_text(f"{file_digest(file)}  {file.name}\n")


def sign_classifier(file: Path) -> None:
    from fewset.classify.saving import _digest

    with suppress(Exception):  # damaged so that it cannot be read
        with safe_open(file, "numpy") as opened:
            table = json.loads(opened.metadata()["fewset.classifier"])
        tensors = load_file(file)
        del table["sha256"]
        signed = json.dumps(table | {"sha256": _digest(table, tensors)})
        save_file(tensors, file, metadata={"fewset.classifier": signed})


def imports(kind: str, source: str) -> tuple[str, str]:
    words = f"data import {kind} {source} --name fuzzed --size 16"
    return words, f"{words} --skip-bad"


def fit(source: str) -> str:
    return f"fit {source} -o out.fewset {TINY}"


PREDICT = f"predict {{root}}/photos/my.fewset {{file}} {TINY}"
RUNS = "runs/proto runs/adapted"
PAGE = "report {at}/proto {at}/adapted --out report"
COMPARE = "compare {at}/proto {at}/adapted"
STUDIES = " ".join(f"{ROOT}/results/paper/{name}" for name in ("heads", "similarity", "ways", "generalised"))
SET, TABLE = "home/sets/tiny", "home/features/tiny-features"


def manifest(place: str) -> Sample:
    name = Path(place).name
    return Sample(place, "manifest.json", (f"data info {{at}}/{name}", f"data verify {{at}}/{name}"))


def arrays(place: str) -> Sample:
    return Sample(place, "*.npy", (f"data verify {{at}}/{Path(place).name}",), digest=True)


def zips(room: Room, rng: Random) -> Case:
    folder = fit("{file}"), f"{PREDICT} --csv out.csv"
    chosen = (
        Sample("samples/zips", "folder.zip", folder),
        Sample("samples/zips", "*.zip", imports("{stem}", "{file}")),
    )
    return rng.choice(chosen)(room, rng)


READERS |= {
    "results": Sample(RUNS, "result.json", (COMPARE, "results kept --add {at}/proto --add {at}/adapted")),
    "reports": Sample(RUNS, "result.json metrics.jsonl recipe.toml", (PAGE,)),
    "values of tasks": Sample(RUNS, "per_task.npy per_task_before.npy examples.npz", (COMPARE, PAGE)),
    "environments": Sample("runs/pre", "environment.json", ("eval {at}/pre --tasks 3",)),
    "manifests of sets": manifest(SET),
    "manifests of features": manifest(TABLE),
    "arrays of sets": arrays(SET),
    "arrays of features": arrays(TABLE),
    "studies": Sample(STUDIES, "*.json", ("paper {stem} --draw --out {at}",)),
    "weights": Sample(
        "runs/feat",
        "model.safetensors",
        ("eval {at}/feat --tasks 3", "embed {at}/feat --out rows.npz --split val"),
        sign,
        digest=True,
    ),
    "checkpoints of a training": Sample(  # only the training itself writes the digest
        "samples/training",
        "feat/checkpoint/last.pt",
        ("train {at}/training/feat.toml --out {at}/training/feat --resume --runs {at}/training",),
        digest=True,
    ),
    "classifiers": Sample(
        "photos",
        "my.fewset",
        ("info {file}", f"predict {{file}} {{root}}/photos/labelled/grass/0.png --reject {TINY}"),
        sign_classifier,
    ),
    "journals": Sample(  # the answers that a stopped run left, from which the next one continues
        "samples/answers",
        "*.partial",
        (f"predict {{root}}/photos/my.fewset ../photos/labelled {TINY} --csv {{at}}/answers/a.csv --resume",),
    ),
    "ONNX encoders": Sample(
        "samples/onnx",
        "*",
        ("fit {root}/photos/labelled -o out.fewset --encoder onnx:{at}/onnx/net.onnx",),
    ),
    "encoders of transformers": Sample(
        "samples/vit", "*", ("fit {root}/photos/labelled -o out.fewset --encoder hf:{at}/vit",)
    ),
    "images": Sample(
        "samples/images",
        "grass/*",
        (*imports("folder", "{at}/images"), fit("{at}/images"), PREDICT),
    ),
    "zips": zips,
    "CSV files of photos": Sample("samples/photos", "photos.csv", (fit("{file}"), PREDICT)),
    "CSV files of sets": Sample("samples/tables", "*.csv", imports("csv", "{at}/tables")),
    "lists of CUB": Sample("samples/cub", "*.txt", imports("cub", "{at}/cub")),
    "low-shot benchmark": Sample(
        "samples/low-shot", "*", ("data import features {at}/low-shot --name fuzzed",)
    ),
    "recipes that extend others": Sample(
        f"{ROOT}/recipes/strokes", "_strokes.toml feat.toml", ("recipes {at}/strokes/feat.toml",)
    ),
    "recipes with variants": Sample(
        f"{ROOT}/recipes/miniimagenet",
        "_miniimagenet.toml conv4.toml",
        ("recipes {at}/miniimagenet/conv4-feat-1shot.toml",),
    ),
}
