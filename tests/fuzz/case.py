"""An input and the command that reads it; and the readers, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from random import Random

from fewset.io.files import file_digest
from tests.fuzz.room import Room
from tests.helpers.containers import spoil
from tests.helpers.damage import Spared

FUZZED = "home/sets/fuzzed", "home/features/fuzzed"
"""Where `fewset data import … --name fuzzed` may write."""
TINY = "--encoder tiny --plugin {root}/photos/tiny_encoder.py"


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


@dataclass(frozen=True)
class Sample:
    """Copies of directories of the room, one of whose files is damaged, and the commands that read it.

    In a command, {at} is the directory with the copies, {file} the damaged file and {stem} its stem.

    :param sign: gives a damaged file its digest again, most of the time; otherwise the digest hides all
        other damage.
    :param digest: a damaged file that is not signed must be rejected.
    """

    places: str
    files: str
    commands: tuple[str, ...]
    sign: Callable[[Path], None] | None = None
    digest: bool = False

    def __call__(self, room: Room, rng: Random) -> Case:
        at = room.work / f"{rng.randrange(2**32):x}"  # a process loads an encoder from a path once
        copies = [room.copy(room.root / place, at) for place in self.places.split()]
        found = [file for copy in copies for each in self.files.split() for file in sorted(copy.glob(each))]
        file = rng.choice(found)
        right = file_digest(file)
        spoil(file, rng)
        must_reject = self.digest and file_digest(file) != right
        if self.sign is not None and rng.random() < 0.7:
            self.sign(file)
            must_reject = False
        words = rng.choice(self.commands).split()
        given = {"at": at.name, "file": file.relative_to(room.work), "stem": file.stem, "root": room.root}
        return command(*(word.format(**given) for word in words), must_reject=must_reject)


Reader = Callable[[Room, Random], Case]
READERS: dict[str, Reader] = {}


def reader(name: str) -> Callable[[Reader], Reader]:
    """Decorator: a function that draws a case for the reader of this name."""

    def decorate(function: Reader) -> Reader:
        READERS[name] = function
        return function

    return decorate


def load_readers() -> list[str]:
    for module in ("samples", "files", "commands"):
        import_module(f"tests.fuzz.{module}")
    return sorted(READERS)


def draw(room: Room, name: str, seed: int, index: int) -> Case:
    """The case depends on these three alone. Below index 0 nothing is damaged."""
    kind = Spared if index < 0 else Random
    return READERS[name](room, kind(f"{seed} {name} {index}"))


def command(*words: object, must_reject: bool = False) -> Case:
    given = tuple(map(str, words))
    return Case(given, FUZZED if given[:2] == ("data", "import") else (), must_reject)


def data_import(kind: str, source: object, *words: object) -> Case:
    return command("data", "import", kind, source, "--name", "fuzzed", *words)
