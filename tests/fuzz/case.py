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
GENERATED = "home/sets/strokes", "home/sets/families"
"""The sets that whatever names them first makes."""


@dataclass(frozen=True)
class Ending:
    """How a command ended: its exit code and what it printed."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Case:
    """A command on an input that lies in `room.work`, or another act that ends like a command.

    :param owns: places of the room beside `work` where it may write.
    :param only_refusal: the input must not be accepted, because it is not what its digest says.
    """

    words: tuple[str, ...]
    owns: tuple[str, ...] = ()
    only_refusal: bool = False
    act: Callable[[], Ending] | None = None


Reader = Callable[[Room, Random], Case]
READERS: dict[str, Reader] = {}


def reader(name: str) -> Callable[[Reader], Reader]:
    """Decorator: a function that draws a case for the reader of this name."""

    def decorate(function: Reader) -> Reader:
        READERS[name] = function
        return function

    return decorate


def load_readers() -> dict[str, Reader]:
    import tests.fuzz.readers

    for module in iter_modules(tests.fuzz.readers.__path__):
        import_module(f"tests.fuzz.readers.{module.name}")
    return dict(sorted(READERS.items()))


def draw(room: Room, name: str, seed: int, number: int) -> Case:
    """The case of that number: it depends on these three alone. Of numbers below 0 nothing is damaged."""
    kind = Spared if number < 0 else Random
    return READERS[name](room, kind(f"{seed} {name} {number}"))


def command(*words: object, **options: object) -> Case:
    return Case(tuple(map(str, words)), **options)  # type: ignore[arg-type]
