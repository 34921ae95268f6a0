"""The command line: every command of the app with odd values of its own options and arguments."""

import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import fields
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any
from unittest.mock import patch

from typer.main import get_command

from fewset.core.errors import UserError
from fewset.core.names import plain_name
from tests.fuzz.case import FUZZED, Case, Ending, reader
from tests.fuzz.judge import run_command
from tests.fuzz.readers.runs import ROOT
from tests.fuzz.room import Room
from tests.helpers.damage import Spared, odd_words, toml_text
from tests.helpers.tiny_recipes import PRETRAIN, TRAIN

RESULTS = ROOT / "results"
NAMING = {"data import"}
"""Commands that make a set of the name that they are given."""
LONG = {"tasks", "epochs", "steps", "repetitions", "background", "images", "photos", "width", "height"}
"""Options of which a large value is right, and takes long."""
PROTOCOLS = "ways", "transductive", "generalised", "cross-domain", "low-shot"


@cache
def commands() -> dict[str, list[Any]]:
    """The parameters of every command, by the words that call it."""
    from fewset.cli.app import app

    def walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, list[Any]]]:
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, (*words, name))
        if not hasattr(command, "commands"):
            yield " ".join(words), [one for one in command.params if one.name != "options"]

    return dict(walk(get_command(app), ()))


def plain(room: Room) -> dict[str, str]:
    """Words with which each command does something small; a command without words here is tried bare."""
    tiny = f"--encoder tiny --plugin {room.plugin}"
    runs = f"{room.runs}/proto {room.runs}/adapted"
    return {
        "fit": f"{room.labelled} -o out.fewset {tiny}",
        "predict": f"{room.classifier} new.png {tiny}",  # a copy, since --move-to moves it
        "info": f"{room.classifier}",
        "serve": f"{room.classifier} --port 0 {tiny}",
        "export": f"{room.runs}/feat -o out.onnx",
        "demo": "--out demo",
        "pretrain": "pre.toml --runs runs",
        "train": "feat.toml --runs runs",
        "eval": "run --tasks 3",
        "compare": runs,
        "report": f"{runs} --out report",
        "results": f"kept --add {room.runs}/proto",
        "import-weights": "no.pth --method FEAT --backbone ConvNet --out imported",
        "embed": "run --out rows-of-run.npz",
        "data import": f"folder {room.labelled} --name fuzzed --size 16",
        "data info": "tiny",
        "data verify": "tiny-features",
        "paper": "heads --draw --out paper",
        "bench": "evaluate --repetitions 1",
    }


def _lay_out(room: Room) -> None:
    """The files that the plain words name."""
    train = {**TRAIN, "train": {**TRAIN["train"], "epochs": 0, "init": ""}}  # type: ignore[dict-item]
    pretrain = {**PRETRAIN, "pretrain": {"epochs": 0, "init": str(room.runs / "pre")}}
    (room.work / "feat.toml").write_text(toml_text(train))
    (room.work / "pre.toml").write_text(toml_text(pretrain))
    shutil.copytree(room.runs / "feat", room.work / "run")
    shutil.copyfile(room.labelled / "grass" / "0.png", room.work / "new.png")
    (room.work / "paper" / "heads").mkdir(parents=True)
    shutil.copyfile(RESULTS / "paper" / "heads" / "heads.json", room.work / "paper" / "heads" / "heads.json")


def _odd_path(room: Room, rng: Random) -> str:
    """A path within the room to a pipe, a device, a loop, a file, or nothing."""
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
        end = rng.choice(("", "/", "/x", "/x/y"))
        return rng.choice((place.name + end, "run", "feat.toml"))  # copies: a command may write to them
    text = odd_words(rng)
    return text if not text.startswith("/") and ".." not in text else "x"


def _odd_option(room: Room, parameter: Any, rng: Random) -> str:
    if parameter.name == "plugin":  # code that the user chose to run
        return str(room.plugin)
    value = _odd_path(room, rng) if "Path" in parameter.bare_type() else odd_words(rng)
    long = parameter.name in LONG and value.isdecimal() and int(value) < 2**31
    return "3" if long else value


@reader("options")
def options(room: Room, rng: Random) -> Case:
    _lay_out(room)
    known, whole = plain(room), isinstance(rng, Spared)
    name = rng.choice([name for name in known if name != "import-weights"] if whole else list(commands()))
    words = known.get(name, "").split()
    for _ in range(0 if whole else rng.randint(1, 3)):
        if not commands()[name]:
            words += [odd_words(rng)]
            continue
        parameter = rng.choice(commands()[name])
        value = _odd_option(room, parameter, rng)
        if parameter.param_type_name == "argument":
            place = rng.randrange(len(words) + 1)
            words[place : place + rng.randrange(2)] = [value]
        else:
            flag = parameter.bare_type() == "bool" and rng.random() < 0.8
            words += [rng.choice(parameter.opts), *([] if flag else [value])]
    if name == "eval" and not whole and rng.random() < 0.5:
        words += ["--setting", rng.choice(PROTOCOLS), rng.choice(_protocol_options()), odd_words(rng)]
    given = (*name.split(), *words)
    named = _named_sets(room, words) if name in NAMING else ()
    return Case(given, (*FUZZED, *named), act=lambda: _briefly(given))


def _named_sets(room: Room, words: list[str]) -> Iterator[str]:
    """Where a command with an odd `--name` may write: a new set or table of this name."""
    for option, name in pairwise(words):
        with suppress(UserError):
            new = [f"home/{kind}/{plain_name(name, 'the set')}" for kind in ("sets", "features")]
            if option == "--name":
                yield from (place for place in new if not (room.root / place).exists())


@cache
def _protocol_options() -> list[str]:
    from fewset.evaluation import protocols

    members = [protocols.PROTOCOLS[name] for name in PROTOCOLS]
    names = [field.name for member in members for field in fields(member)]  # type: ignore[arg-type]
    return [f"--{name.replace('_', '-')}" for name in names]


def _briefly(words: tuple[str, ...]) -> Ending:
    """The command, without the parts that take minutes or have no end: trainings, measuring, serving."""
    import uvicorn

    from fewset.bench import parts
    from fewset.cli import demo

    record = json.loads((RESULTS / "performance" / "train.json").read_text())
    with ExitStack() as stack:
        stack.enter_context(patch.object(demo, "STAGES", ("feat.toml",)))
        stack.enter_context(patch.dict(parts.PARTS, dict.fromkeys(parts.PARTS, lambda *_, **__: record)))
        stack.enter_context(patch.object(uvicorn.Server, "run", lambda *_, **__: None))
        return run_command(words)
