"""Readers of what a user types or sends: options of every command, recipes, overrides, HTTP requests."""

import json
import shutil
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import fields
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

from typer.main import get_command

from fewset.core.errors import UserError
from fewset.core.names import plain_name
from tests.fuzz.case import FUZZED, TINY, Case, Ending, command, reader
from tests.fuzz.judge import run_command
from tests.fuzz.page import ROOT
from tests.fuzz.room import Room
from tests.helpers.containers import spoiled
from tests.helpers.damage import (
    Spared,
    altered,
    damaged,
    json_text,
    odd_number,
    odd_text,
    odd_value,
    odd_words,
    toml_text,
)
from tests.helpers.disks import SPECIAL, make_special
from tests.helpers.photos import CLASSES, photo_files
from tests.helpers.tiny_recipes import FEATURES, PRETRAIN, TRAIN
from tests.helpers.web import client, files, png, teach

RESULTS = ROOT / "results"
LONG = {"tasks", "epochs", "steps", "repetitions", "background", "images", "photos", "width", "height"}
"""Options of which a large value is right, and takes long."""
PROTOCOLS = "ways", "transductive", "generalised", "cross-domain", "low-shot"
PLAIN = {
    "fit": f"{{root}}/photos/labelled -o out.fewset {TINY}",
    "predict": f"{{root}}/photos/my.fewset new.png {TINY}",  # a copy, since --move-to moves it
    "suggest": f"{{root}}/photos/my.fewset new.png {TINY}",
    "add": f"{{root}}/photos/my.fewset new.png --label new -o out.fewset {TINY}",
    "remove": f"{{root}}/photos/my.fewset grass -o out.fewset {TINY}",
    "rename": f"{{root}}/photos/my.fewset grass lawn -o out.fewset {TINY}",
    "score": f"{{root}}/photos/my.fewset {{root}}/photos/labelled {TINY}",
    "info": "{root}/photos/my.fewset",
    "serve": f"{{root}}/photos/my.fewset --port 0 {TINY}",
    "export": "{root}/runs/feat -o out.onnx",
    "demo": "--out demo",
    "pretrain": "pre.toml --runs runs",
    "train": "feat.toml --runs runs",
    "eval": "run --tasks 3",
    "compare": "{root}/runs/proto {root}/runs/adapted",
    "report": "{root}/runs/proto {root}/runs/adapted --out report",
    "results": "kept --add {root}/runs/proto",
    "import-weights": "no.pth --method FEAT --backbone ConvNet --out imported",
    "embed": "run --out rows-of-run.npz",
    "data import": "folder {root}/photos/labelled --name fuzzed --size 16",
    "data info": "tiny",
    "data verify": "tiny-features",
    "paper": "heads --draw --out paper",
    "bench": "evaluate --repetitions 1",
}
"""Words with which each command does something small; a command without words here is tried bare."""


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


def _lay_out(room: Room) -> None:
    """The files that the plain words name."""
    train = {**TRAIN, "train": {**TRAIN["train"], "epochs": 0, "init": ""}}  # type: ignore[dict-item]
    pretrain = {**PRETRAIN, "pretrain": {"epochs": 0, "init": str(room.runs / "pre")}}
    (room.work / "feat.toml").write_text(toml_text(train))
    (room.work / "pre.toml").write_text(toml_text(pretrain))
    shutil.copytree(room.runs / "feat", room.work / "run")
    shutil.copyfile(room.root / "photos" / "labelled" / "grass" / "0.png", room.work / "new.png")
    (room.work / "paper" / "heads").mkdir(parents=True)
    shutil.copyfile(RESULTS / "paper" / "heads" / "heads.json", room.work / "paper" / "heads" / "heads.json")


def _odd_path(room: Room, rng: Random) -> str:
    """A path within the room to a pipe, a device, a loop, a file, or nothing."""
    place = room.work / f"odd{len(list(room.work.glob('odd*')))}"
    make: list[Callable[[], object]] = [
        lambda: make_special(place, rng.choice(SPECIAL)),
        lambda: place.symlink_to(place),
        lambda: (place.mkdir(), (place / "loop").symlink_to(place)),
        lambda: place.write_bytes(rng.randbytes(rng.choice((0, 100)))),
        lambda: None,
    ]
    if rng.random() < 0.6:
        rng.choice(make)()
        end = rng.choice(("", "/", "/x", "/x/y"))
        return rng.choice((place.name + end, "run", "feat.toml"))  # copies: a command may write to them
    text = odd_words(rng)
    return text if not text.startswith("/") and ".." not in text else "x"


def _odd_option(room: Room, parameter: Any, rng: Random) -> str:
    if parameter.name in ("plugin",):  # code that the user chose to run
        return f"{room.root}/photos/tiny_encoder.py"
    value = _odd_path(room, rng) if "Path" in parameter.bare_type() else odd_words(rng)
    long = parameter.name in LONG and value.isdecimal() and int(value) < 2**31
    return "3" if long else value


@reader("options")
def options(room: Room, rng: Random) -> Case:
    _lay_out(room)
    whole = isinstance(rng, Spared)
    name = rng.choice([name for name in PLAIN if name != "import-weights"] if whole else list(commands()))
    words = PLAIN.get(name, "").format(root=room.root).split()
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
    named = _named_sets(room, words) if name == "data import" else ()
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


# Recipes of trainings

_FEW = {"pretrain": {"epochs": 1, "validation_tasks": 100},
        "train": {"epochs": 1, "tasks_per_epoch": 5, "validation_tasks": 100}}  # fmt: skip


@reader("recipes")
def recipes(room: Room, rng: Random) -> Case:
    """With small counts: a large or missing one makes a training long rather than wrong."""
    table = rng.choice((PRETRAIN, TRAIN, FEATURES))
    stage = "pretrain" if table is PRETRAIN else "train"
    shutil.copytree(room.runs / "pre", room.work / "runs" / "pre")
    text = toml_text(altered({**table, "name": "new"}, rng))
    (room.work / "recipe.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
    few = [f"{stage}.{count}={value}" for count, value in _FEW[stage].items()]
    if "tiny" not in text:  # the default set is large
        few.append("data.set=tiny")
    words = [word for override in (*few, "evaluate.tasks=100") for word in ("--set", override)]
    return command(stage, "recipe.toml", "--runs", "runs", *words)


@reader("overrides")
def overrides(room: Room, rng: Random) -> Case:
    keys = [f"{part}.{key}" for part, values in TRAIN.items() if isinstance(values, dict) for key in values]
    words: list[str] = []
    for _ in range(0 if isinstance(rng, Spared) else rng.randint(1, 3)):
        key = rng.choice([*keys, odd_text(rng), "seed", "name", "extends"])
        if "epochs" not in key and "tasks" not in key:
            value = rng.choice((odd_text(rng), toml_text({"x": odd_value(rng)}).partition("= ")[2].strip()))
            words += ["--set", f"{key}={value}".encode("utf-8", "replace").decode()[:100_000]]
    (room.work / "tiny.toml").write_text(toml_text(TRAIN))
    short = "--set", "train.epochs=0", "--set", "train.init=''", "--runs", "runs"
    return command("train", "tiny.toml", *words, *short)


# Requests to `fewset serve`, after which its state must still be readable

_BODIES: dict[str, Any] = {
    "/api/photos/move": {"photos": [0, 1], "label": "grass"},
    "/api/photos/remove": {"photos": [2]},
    "/api/classes": {"name": "new"},
    "/api/classes/rename": {"name": "grass", "new_name": "meadow"},
    "/api/classes/remove": {"name": "brick"},
    "/api/reject": {"share": 0.05},
    "/api/undo": {},
    "/api/tried/teach": {"photos": [0], "label": "grass"},
    "/api/tried/forget": {"photos": [0]},
}
_PAGES = "state", "tried", "picture", "downloads/{}", "photos/{}/thumbnail", "../{}", "../docs"


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _page(opened: Any, rng: Random) -> Any:
    name = quote(odd_text(rng).encode("utf-8", "surrogatepass")[:2000], safe="/")
    page = rng.choice(_PAGES).format(rng.choice((name, str(odd_number(rng)))))
    return opened.request(rng.choice(("GET", "HEAD", "DELETE", "POST")), f"/api/{page}")


def _json(opened: Any, rng: Random) -> Any:
    place = rng.choice(list(_BODIES))
    text = json_text(altered(_BODIES[place], rng)).encode("utf-8", "surrogatepass")
    text = damaged(text, rng) if rng.random() < 0.2 else text
    return opened.post(place, content=text, headers={"content-type": "application/json"})


def _upload(opened: Any, rng: Random) -> Any:
    data = {"label": _encodable(rng.choice((*CLASSES, odd_text(rng))))}
    data[rng.choice(("top", "keep", "label", "group"))] = _encodable(str(odd_number(rng)))
    bad = spoiled(rng.choice(list(photo_files().values())), rng)
    sent = [("photos", (_encodable(odd_text(rng)) or "x", bad)), ("photos", ("b.png", png("grass", 7)))]
    return opened.post(rng.choice(("/api/photos", "/api/classify")), data=data, files=sent)


def _form(opened: Any, rng: Random) -> Any:
    whole = opened.build_request("POST", "/api/photos", data={"label": "grass"}, files=files("grass", 9))
    body = damaged(whole.read(), rng)
    return opened.post("/api/photos", content=body, headers={"content-type": whole.headers["content-type"]})


def _serve(rng: Random) -> Ending:
    """Exit code 2 stands for a request that was rejected, 1 for an answer that no request may get."""
    codes = []
    with client() as opened:
        teach(opened, shots=2)
        opened.post("/api/classify", data={"keep": "true"}, files=files("grass", 5))
        for _ in range(0 if isinstance(rng, Spared) else 8):
            try:
                answer = rng.choice((_page, _json, _json, _upload, _form))(opened, rng)
            except Exception:  # a server would answer with 500
                return Ending(1, "", traceback.format_exc())
            codes.append(answer.status_code)
            if answer.status_code >= 500:
                return Ending(1, "", f"{answer.request.method} {answer.request.url}: {answer.text}")
        if not json.loads(opened.get("/api/state").text)["encoder"]:
            return Ending(1, "", "the state is gone")
    rejected = any(code >= 400 for code in codes)
    return Ending(2, "", "error: a request was rejected") if rejected else Ending(0, "", "")


@reader("HTTP")
def http(room: Room, rng: Random) -> Case:  # noqa: ARG001, nothing is read from the room
    return Case(("serve",), act=lambda: _serve(rng))
