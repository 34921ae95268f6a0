"""The sides of a comparison take turns, each in a process of its own. Their measurements become a record."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from fewset.bench.workers import Repetition, Side, Worker, take_turns
from fewset.compute.devices import device_name, pick_device
from fewset.data.images.store import open_set
from fewset.experiments.result import command_line
from fewset.report.tables import Column, Table, plain_text

FORMAT = 1
Record = dict[str, Any]


@dataclass(frozen=True)
class Measuring:
    """How a part is measured. The processes that measure load the `plugins`."""

    repetitions: int = 5
    device: str = "auto"
    plugins: tuple[Path, ...] = ()


def measure_sides(
    setup: Measuring, sides: dict[str, Side], threads: int | None = None
) -> tuple[list[list[Repetition]], Record]:
    """The repetitions of each side, and the beginning of the record: sides, machine, command."""
    for side in sides.values():
        if "data" in side.options:
            open_set(side.options["data"])  # made before the workers would all make it at once
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Worker(side, plugins=setup.plugins, threads=threads))
            for side in sides.values()
        ]
        measured = take_turns(workers, setup.repetitions)
        ends = [worker.finish() for worker in workers]
    machine = ends[0]["machine"]  # of a tuned process: with the number of threads that it took
    record: Record = {
        "format": FORMAT,
        "part": "",
        "options": {},
        "repetitions": setup.repetitions,
        "sides": [
            {
                "side": name,
                "images": one[0]["images"],
                "seconds": [round(repetition["seconds"], 6) for repetition in one],
                "images_per_second": round(one[0]["images"] / median_of(one), 3),
                "peak_memory": end["peak_memory"],
            }
            for name, one, end in zip(sides, measured, ends, strict=True)
        ],
        "command": command_line(),
        "commit": machine.pop("commit"),
        "machine": {**machine, "device": device_name(pick_device(setup.device))},
    }
    return measured, record


def median_of(repetitions: Sequence[Repetition], key: str = "seconds") -> float:
    """The median over the repetitions of a side."""
    return float(median(repetition[key] for repetition in repetitions))


def ratio_of(what: str, values: Sequence[float]) -> dict[str, Any]:
    """A ratio of two sides as a record has it, with its range over the repetitions."""
    return {"what": what, "median": median(values), "low": min(values), "high": max(values)}


def time_ratio(
    what: str, slow: Sequence[Repetition], fast: Sequence[Repetition], share: float = 1
) -> dict[str, Any]:
    """The ratio of the seconds of two sides; `share` extrapolates those of the slow one."""
    pairs = zip(slow, fast, strict=True)
    return ratio_of(what, [share * one["seconds"] / other["seconds"] for one, other in pairs])


def record_tables(record: Record) -> tuple[Table, Table]:
    """The sides with their speed and memory, and the ratios."""
    sides = Table(
        _title(record),
        tuple(Column(title, title) for title in ("Side", "Images/s", "Seconds", "Peak memory")),
        tuple(
            (
                side["side"],
                f"{side['images_per_second']:,.1f}",
                f"{side['images'] / side['images_per_second']:.3f} "
                f"({min(side['seconds']):.3f} to {max(side['seconds']):.3f})",
                f"{side['peak_memory'] / 2**20:,.0f} MiB",
            )
            for side in record["sides"]
        ),
    )
    ratios = [
        (ratio["what"], f"{ratio['median']:.2f}", f"{ratio['low']:.2f} to {ratio['high']:.2f}")
        for ratio in record["ratios"]
    ]
    titles = Column("Ratio", "ratio"), Column("Median", "median"), Column("Range", "range")
    return sides, Table("Ratios", titles, tuple(ratios), tuple(record["facts"]))


def record_text(record: Record) -> str:
    return "\n".join(plain_text(table) for table in record_tables(record))


def _title(record: Record) -> str:
    options = record["options"]
    if "encoder" in options:
        return f"{record['part']}: {options['encoder']}"
    if "heads" in options:
        tasks = f"{options['tasks']:,} {options['way']}-way {options['shot']}-shot tasks"
        return f"{record['part']}: {tasks}, {options['dim']} dimensions"
    size = f", {options['size']} px" if options["size"] else ""
    return f"{record['part']}: {options['backbone']} on {options['data']}{size}"
