"""The page on speed, made from kept records alone."""

from pathlib import Path
from typing import Any

from benchmarks.scale import scale_text
from fewset.bench.measuring import Record, record_tables
from fewset.core.errors import UserError
from fewset.io.reading import read_json
from fewset.report.tables import markdown_text

_INTRODUCTION = """# Performance

This page is made from the records in `results/performance/` by `python -m benchmarks performance`.

Each table is one run of `fewset bench evaluate`, `train`, `data` or `classify`, or of `python -m benchmarks
methods` or `serve`; the section on scale describes its own. It compares two or more processes that take
turns, one repetition each. Values are medians, with the smallest and the largest value in brackets.
Seconds depend on the machine that is named below the table; ratios carry over to other machines more easily.

The "published way" and the "plain default" are PyTorch as it starts: images in NCHW order, the default
allocator, and convolution, BatchNorm, ReLU and pooling in this order. Each task decodes and embeds its own
images. Both sides have the same weights and score the same tasks. `fewset bench classify` embeds the same
pixels on all sides, with one thread each. `python -m benchmarks serve` compares the throughput of the
server under concurrent load with that of its encoder alone on the same photos: as JPEG files in memory,
which the encoder decodes and resizes as the server does, and as pixels of its input size. Clients and
server share the cores.

fewset sets up its process for a CPU (`fewset.compute.machine.tune`; `FEWSET_TUNE=0` turns it off):

- Freed memory stays in the process (with glibc), which saves page faults in each training step.
- Denormal numbers are flushed to zero.
- Idle threads go to sleep early (`GOMP_SPINCOUNT`, unless it is set already).
- There is one thread for each physical core that the process may use, according to its affinity and its
  control group. `OMP_NUM_THREADS` sets another number of threads.

Where numba is named below a table, an earlier version drew and scored 10,000 tasks and more by compiled
loops.
"""


def performance_page(directory: Path) -> str:
    """The page of a directory of records, as Markdown."""
    files = sorted(directory.glob("*.json"))
    if not files:
        raise UserError(f"there are no records in {directory}; `fewset bench evaluate --out FILE` writes one")
    return "\n".join([_INTRODUCTION, *(_section(file.stem, read_json(file)) for file in files)])


def _section(name: str, record: Record) -> str:
    if record["part"] == "scale":
        return scale_text(record)
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
