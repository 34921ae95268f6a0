"""JSON: results of runs, manifests, studies, settings of encoders."""

import json
import shutil
from functools import cache
from pathlib import Path
from random import Random

from tests.fuzz.case import Case, command, reader
from tests.fuzz.room import Room
from tests.helpers.damage import altered, damaged, json_text

RESULTS = Path(__file__).parents[3] / "results"


@cache
def _kept(place: str) -> bytes:
    return (RESULTS / place).read_bytes()


def damage_json(file: Path, rng: Random) -> None:
    """Mostly another value in its place, sometimes other bytes."""
    data = file.read_bytes()
    if rng.random() < 0.85:
        data = json_text(altered(json.loads(data), rng)).encode("utf-8", "surrogatepass")
    else:
        data = damaged(data, rng)
    file.write_bytes(data)


@reader("results")
def results(room: Room, rng: Random) -> Case:
    runs = room.work / "runs"
    for name in ("proto", "adapted"):
        shutil.copytree(room.runs / name, runs / name)
    damage_json(runs / rng.choice(("proto", "adapted")) / "result.json", rng)
    if rng.random() < 0.4:
        return command("results", "kept", "--add", runs / "proto", "--add", runs / "adapted")
    return command("compare", runs / "proto", runs / "adapted")


@reader("reports")
def reports(room: Room, rng: Random) -> Case:
    """The page of runs: their results, curves and recipes."""
    runs = room.work / "runs"
    for name in ("proto", "adapted"):
        shutil.copytree(room.runs / name, runs / name)
    run = runs / rng.choice(("proto", "adapted"))
    kind = rng.randrange(3)
    if kind == 0:
        damage_json(run / "result.json", rng)
    elif kind == 1:
        lines = (run / "metrics.jsonl").read_text().splitlines()
        number = rng.randrange(len(lines))
        lines[number] = json_text(altered(json.loads(lines[number]), rng))
        (run / "metrics.jsonl").write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    else:
        file = run / rng.choice(("metrics.jsonl", "recipe.toml"))
        file.write_bytes(damaged(file.read_bytes(), rng))
    return command("report", runs / "proto", runs / "adapted", "--out", "report")


@reader("manifests")
def manifests(room: Room, rng: Random) -> Case:
    kind, name = rng.choice((("sets", "tiny"), ("features", "tiny-features")))
    place = room.work / name
    shutil.copytree(room.home / kind / name, place)
    damage_json(place / "manifest.json", rng)
    return command("data", rng.choice(("info", "verify")), place)


@reader("environments")
def environments(room: Room, rng: Random) -> Case:
    """What a run notes of itself, and what a training that goes on reads of it."""
    run = room.work / "run"
    shutil.copytree(room.runs / "pre", run)
    damage_json(run / "environment.json", rng)
    return command("eval", run, "--tasks", 3)


@reader("studies")
def studies(room: Room, rng: Random) -> Case:
    name = rng.choice(("heads", "similarity", "ways", "generalised"))
    file = room.work / "paper" / name / f"{name}.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(_kept(f"paper/{name}/{name}.json"))
    damage_json(file, rng)
    return command("paper", name, "--draw", "--out", room.work / "paper")
