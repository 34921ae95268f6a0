"""What was tried, how often, and what came of it: the files from which docs/reliability.md is made."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from fewset.compute.machine import describe
from fewset.core.errors import UserError
from fewset.io.files import write_json
from fewset.io.reading import read_record

FORMAT = 1


@dataclass(frozen=True)
class Outcomes:
    """What became of the inputs of a reader; `wrong` is what must not be, by kind."""

    accepted: int
    refused: int
    wrong: dict[str, int]
    slowest_seconds: float

    @property
    def inputs(self) -> int:
        return self.accepted + self.refused + sum(self.wrong.values())


@dataclass(frozen=True)
class FuzzRecord:
    commit: str
    versions: dict[str, Any]
    seed: int
    first: int
    processes: int
    minutes: float
    limit_seconds: int
    limit_bytes: int
    readers: dict[str, Outcomes]
    format: int = FORMAT

    @property
    def inputs(self) -> int:
        return sum(outcomes.inputs for outcomes in self.readers.values())

    @property
    def wrong(self) -> int:
        return sum(sum(outcomes.wrong.values()) for outcomes in self.readers.values())


@dataclass(frozen=True)
class KillRecord:
    """The kills of each job, and what was wrong after them."""

    commit: str
    versions: dict[str, Any]
    seed: int
    kills: dict[str, int]
    wrong: tuple[str, ...] = ()
    format: int = FORMAT


Record = TypeVar("Record", FuzzRecord, KillRecord)


def origin() -> dict[str, Any]:
    """What made a record; asked before it is written, which changes the tree."""
    versions = describe()
    return {"commit": str(versions.pop("commit")), "versions": versions}


def write(record: FuzzRecord | KillRecord, file: Path) -> None:
    write_json(file, asdict(record))


def read(kind: type[Record], file: Path) -> Record:
    return read_record(kind, file, "record", FORMAT, lambda what: UserError(f"{file} {what}"))
