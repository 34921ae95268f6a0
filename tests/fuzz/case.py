"""An input and the command that reads it; and the readers, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from random import Random

from tests.fuzz.room import Room
from tests.helpers.damage import Spared

FUZZED = "home/sets/fuzzed", "home/features/fuzzed"
"""Where `fewset data import … --name fuzzed` may write."""


@dataclass(frozen=True)
class Ending:
    """How a command ended: its exit code and what it printed."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Case:
    """A command on an input that lies in `room.work`.

    :param owns: places of the room beside `work` where it may write.
    :param must_reject: the input must not be accepted, because it does not match its digest.
    :param act: runs the command, where it needs something around it.
    """

    words: tuple[str, ...]
    owns: tuple[str, ...] = ()
    must_reject: bool = False
    act: Callable[[], Ending] | None = None


Reader = Callable[[Room, Random], Case]
READERS: dict[str, Reader] = {}


def reader(name: str) -> Callable[[Reader], Reader]:
    """Decorator: a function that draws a case for the reader of this name."""

    def decorate(function: Reader) -> Reader:
        READERS[name] = function
        return function

    return decorate


def load_readers() -> list[str]:
    import tests.fuzz.readers

    for module in iter_modules(tests.fuzz.readers.__path__):
        import_module(f"tests.fuzz.readers.{module.name}")
    return sorted(READERS)


def draw(room: Room, name: str, seed: int, index: int) -> Case:
    """The case depends on these three alone. Below index 0 nothing is damaged."""
    kind = Spared if index < 0 else Random
    return READERS[name](room, kind(f"{seed} {name} {index}"))


def command(*words: object, owns: tuple[str, ...] = (), must_reject: bool = False) -> Case:
    return Case(tuple(map(str, words)), owns, must_reject)


def data_import(kind: str, source: object, *words: object) -> Case:
    return command("data", "import", kind, source, "--name", "fuzzed", *words, owns=FUZZED)
