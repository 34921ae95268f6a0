"""Records of `fewset bench` as tables, and the page that is made from kept records alone."""

from pathlib import Path
from typing import Any

from fewset.bench.measuring import FORMAT, Record
from fewset.core.errors import UserError
from fewset.io.files import page_beside, write_page
from fewset.io.reading import read_json
from fewset.report.tables import Column, Table, markdown_text, plain_text

_INTRODUCTION = """# Performance

`fewset bench page` makes this page from the files in `performance/`. No number is written by hand.

Each table is one run of `fewset bench`. The sides that it compares are separate processes that take turns,
one repetition each. Numbers are medians; the smallest and the largest value are in brackets. Seconds depend
on the machine that is named below the table. Ratios are easier to carry over to another machine.

The other side, called "published way" or "plain default", is PyTorch as it starts: images in NCHW order,
the default allocator, and convolution, BatchNorm, ReLU and pooling in this order. Each task decodes and
embeds its own images. Both sides have the same weights and score the same tasks. `fewset bench classify`
embeds the same pixels on all sides, with one thread each. `fewset bench serve` compares a server that many
clients ask at once with its own encoder, which is given the same photos by itself, with all cores: as JPEG
files in memory, which it decodes and resizes as the server does, and as pixels of the size that the network
takes. Clients and server share the cores.

fewset sets up its process for a CPU (`fewset.compute.machine.tune`; `FEWSET_TUNE=0` turns it off):

- Freed memory stays in the process (with glibc), which saves a training step its page faults.
- Denormal numbers are flushed to zero.
- Idle threads go to sleep early (`GOMP_SPINCOUNT`, unless it is set already).
- There is one thread for each physical core that the process may use, according to its affinity and its
  control group. `OMP_NUM_THREADS` chooses another number.

Where numba is named below a table, an earlier version drew and scored 10,000 tasks and more by compiled
loops.
"""


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
    ratios = Table(
        "Ratios",
        (Column("Ratio", "ratio"), Column("Median", "median"), Column("Range", "range")),
        tuple(
            (ratio["what"], f"{ratio['median']:.2f}", f"{ratio['low']:.2f} to {ratio['high']:.2f}")
            for ratio in record["ratios"]
        ),
        tuple(record["facts"]),
    )
    return sides, ratios


def record_text(record: Record) -> str:
    return "\n".join(plain_text(table) for table in record_tables(record))


def performance_page(directory: Path) -> str:
    """The page of a directory of records, as Markdown."""
    files = sorted(directory.glob("*.json"))
    if not files:
        raise UserError(f"there are no records in {directory}; make one with `fewset bench … --out`")
    return "\n".join([_INTRODUCTION, *(_section(file) for file in files)])


def make_page(directory: Path, check: bool = False) -> Path:
    """Write the page of a directory, or with `check` only refuse one that is not what the files give."""
    command = f"fewset bench page {directory}"
    return write_page(page_beside(directory), performance_page(directory), command, check=check)


def _section(file: Path) -> str:
    try:
        record = read_json(file)
        if record["format"] != FORMAT:
            raise ValueError(f"its format is {record['format']!r}, expected {FORMAT}")
        return _section_of(file.stem, record)
    except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        raise UserError(
            f"{file} is not a record of `fewset bench` ({type(error).__name__}: {error}); measure it again"
        ) from None


def _section_of(name: str, record: Record) -> str:
    machine: dict[str, Any] = record["machine"]
    threads = "1 thread" if machine["threads"] == 1 else f"{machine['threads']} threads"
    device = machine.get("device", "cpu")  # records of earlier versions are all of a CPU
    compiler = f", numba {machine['numba']}" if machine.get("numba", "none") != "none" else ""
    origin = (
        f"`{record['command']}`, {record['repetitions']} repetitions; commit {record['commit'][:10]}, "
        f"torch {machine['torch']}{compiler}, {machine['processor']}, {machine['cores']} cores, "
        f"{threads}{'' if device == 'cpu' else f', {device}'}.\n"
    )
    return "\n".join([f"## {name}\n", *(markdown_text(table) for table in record_tables(record)), origin])


def _title(record: Record) -> str:
    options = record["options"]
    if "encoder" in options:
        return f"{record['part']}: {options['encoder']}"
    if "heads" in options:
        tasks = f"{options['tasks']:,} {options['way']}-way {options['shot']}-shot tasks"
        return f"{record['part']}: {tasks}, rows of {options['dim']} numbers"
    model = options.get("run") or options["backbone"]
    size = f", {options['size']} px" if options["size"] else ""
    return f"{record['part']}: {model} on {options['data']}{size}"
