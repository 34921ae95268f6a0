"""The command line: every command of the app with odd values of its own options and arguments."""

import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
from typer.main import get_command

from fewset.core.errors import UserError
from fewset.core.names import plain_name
from tests.fuzz.case import FUZZED, Case, Ending, reader
from tests.fuzz.invariant import run_command
from tests.fuzz.readers.records import RESULTS
from tests.fuzz.room import Room
from tests.helpers.damage import Spared, odd_words, toml_text
from tests.helpers.feature_files import arrays
from tests.helpers.tiny_recipes import PRETRAIN, TRAIN


@cache
def commands() -> dict[str, list[Any]]:
    """The parameters of every command, by the words that call it."""
    from fewset.cli.app import app

    def walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, list[Any]]]:
        if hasattr(command, "commands"):
            for name, inner in command.commands.items():
                yield from walk(inner, (*words, name))
        else:
            yield " ".join(words), [one for one in command.params if one.name != "options"]

    return dict(walk(get_command(app), ()))


def plain(room: Room) -> dict[str, list[object]]:
    """Words with which each command does something small."""
    photos, runs = room.root / "photos" / "labelled", room.runs
    tiny = ["--encoder", "tiny", "--plugin", room.plugin]
    bench = ["--repetitions", 1]
    return {
        "fit": [photos, "-o", "out.fewset", *tiny],
        "predict": [room.classifier, "new.png", *tiny],  # a copy, since --move-to moves it
        "info": [room.classifier],
        "serve": [room.classifier, "--port", 0, *tiny],
        "export": [runs / "feat", "-o", "out.onnx"],
        "demo": ["--out", "demo"],
        "recipes": [],
        "pretrain": ["pre.toml", "--runs", "runs"],
        "train": ["feat.toml", "--runs", "runs"],
        "eval": ["run", "--tasks", 3],
        "compare": [runs / "proto", runs / "adapted"],
        "report": [runs / "proto", runs / "adapted", "--out", "report"],
        "results": ["kept", "--add", runs / "proto"],
        "params": [],
        "weights": [],
        "import-weights": ["no.pth", "--method", "FEAT", "--backbone", "ConvNet", "--out", "imported"],
        "embed": ["run", "--out", "rows-of-run.npz"],
        "data import": ["folder", photos, "--name", "fuzzed", "--size", 16],
        "data list": [],
        "data info": ["tiny"],
        "data verify": ["tiny-features"],
        "paper": ["heads", "--draw", "--out", "paper"],
        "ablate": [],  # with a name it would train for hours
        "bench evaluate": bench,
        "bench train": bench,
        "bench data": bench,
        "bench classify": bench,
    }


WANTING = {"import-weights"}
"""Commands that refuse their plain words: what they would read is too large for a room."""


def _lay_out(room: Room) -> None:
    """The files that the plain words name."""
    train = {**TRAIN, "train": {**TRAIN["train"], "epochs": 0, "init": ""}}  # type: ignore[dict-item]
    pretrain = {**PRETRAIN, "pretrain": {"epochs": 0, "init": str(room.runs / "pre")}}
    (room.work / "feat.toml").write_text(toml_text(train))
    (room.work / "pre.toml").write_text(toml_text(pretrain))
    np.savez(room.work / "rows.npz", **arrays())
    shutil.copytree(room.runs / "feat", room.work / "run")
    shutil.copyfile(room.root / "photos" / "labelled" / "grass" / "0.png", room.work / "new.png")
    (room.work / "paper" / "heads").mkdir(parents=True)
    shutil.copyfile(RESULTS / "paper" / "heads" / "heads.json", room.work / "paper" / "heads" / "heads.json")


def odd_path(room: Room, rng: Random) -> str:
    """A path within the room: what is there is a pipe, a device, a loop, a file, or nothing."""
    place = room.work / f"odd{len(list(room.work.glob('odd*')))}"
    make: list[Callable[[], object]] = [
        lambda: os.mkfifo(place),
        lambda: place.symlink_to("/dev/zero"),
        lambda: place.symlink_to(place),
        lambda: (place.mkdir(), (place / "loop").symlink_to(place)),
        lambda: place.mkdir(),
        lambda: place.write_bytes(b""),
        lambda: place.write_bytes(rng.randbytes(100)),
        lambda: socket.socket(socket.AF_UNIX).bind(place.name),
        lambda: None,
    ]
    if rng.random() < 0.6:
        rng.choice(make)()
        ends = ("", "/", "/x", "/x/y")
        return rng.choice(
            (place.name + rng.choice(ends), "run", "feat.toml")
        )  # copies: what is named may be written
    text = odd_words(rng)
    return text if not text.startswith("/") and ".." not in text else "x"


def odd_option(room: Room, parameter: Any, rng: Random) -> str:
    if parameter.name in ("plugin", "open_browser"):  # code that the user chose to run
        return str(room.plugin)
    return odd_path(room, rng) if "Path" in parameter.bare_type() else odd_words(rng)


_NAMING = {"data import"}
"""Commands that make a set of the name that they are given."""
_LONG = {"tasks", "epochs", "steps", "repetitions", "background", "images", "photos", "width", "height"}
"""Options of which a large value is right, and takes long: large values are for the tests of their checks."""


@reader("options")
def options(room: Room, rng: Random) -> Case:
    _lay_out(room)
    known = plain(room)
    whole = [name for name in known if name not in WANTING]
    name = rng.choice(whole if isinstance(rng, Spared) else list(commands()))
    words = list(map(str, known.get(name, [])))  # a new command is tried without words of its own
    for _ in range(0 if isinstance(rng, Spared) else rng.randint(1, 3)):
        if not commands()[name]:
            words += [odd_words(rng)]
            continue
        parameter = rng.choice(commands()[name])
        value = odd_option(room, parameter, rng)
        if parameter.param_type_name == "argument":
            place = rng.randrange(len(words) + 1)
            words[place : place + rng.randrange(2)] = [value]
        else:
            if value.isdecimal() and parameter.name in _LONG and int(value) < 2**31:
                value = "3"
            flag = parameter.bare_type() == "bool"
            words += [rng.choice(parameter.opts), *([] if flag and rng.random() < 0.8 else [value])]
    if name == "eval" and not isinstance(rng, Spared) and rng.random() < 0.5:
        words += [
            "--setting",
            rng.choice(("ways", "transductive", "generalised", "cross-domain", "low-shot")),
        ]
        words += [rng.choice(_setting_options()), odd_words(rng)]
    given = (*name.split(), *words)
    named = _named_sets(room, words) if name in _NAMING else ()
    return Case(given, (*FUZZED, *named), act=lambda: _briefly(given))


def _named_sets(room: Room, words: list[str]) -> Iterator[str]:
    """Where a command with an odd `--name` may write: a new set or table of this name, no other's."""
    for option, name in pairwise(words):
        with suppress(UserError):
            new = [f"home/{kind}/{plain_name(name, 'the set')}" for kind in ("sets", "features")]
            if option == "--name":
                yield from (place for place in new if not (room.root / place).exists())


@cache
def _setting_options() -> list[str]:
    from dataclasses import fields

    from fewset.evaluation.protocols import PROTOCOLS

    names = [field.name for name in PROTOCOLS for field in fields(PROTOCOLS[name])]  # type: ignore[arg-type]
    return [f"--{name.replace('_', '-')}" for name in names]


def _briefly(words: tuple[str, ...]) -> Ending:
    """The command, without what takes minutes or has no end: the demo's trainings, measuring, serving."""
    import uvicorn

    from fewset.bench import parts
    from fewset.cli import demo

    record = json.loads((RESULTS / "performance" / "train.json").read_text())
    with ExitStack() as stack:
        stack.enter_context(patch.object(demo, "STAGES", ("feat.toml",)))
        stack.enter_context(patch.dict(parts.PARTS, dict.fromkeys(parts.PARTS, lambda *_, **__: record)))
        stack.enter_context(patch.object(uvicorn.Server, "run", lambda *_, **__: None))
        stack.enter_context(patch("typer.launch", lambda *_: 0))
        return run_command(words)
