"""A collection of kept results, and the page that is made from it: nothing on the page is written by hand.

A collection is a directory `GROUP/RUN/` of the small files of runs (no weights); a group is an image set.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from fewset.errors import UserError
from fewset.files import replacing_directory, write_text
from fewset.report.results import Result, read_result, read_results
from fewset.report.tables import Column, Table, comparison_table, markdown_text

PAGE = "README.md"
_KEPT = ("result.json", "recipe.toml", "metrics.jsonl", "*.npy", "examples.npz")

_INTRODUCTION = """# Measured results

Made by `fewset results` from the files beside this page; nothing here is written by hand. Accuracies are the
mean over tasks with its 95 % interval; differences are paired on the same tasks. Each row is one training run
with one seed: the interval says how well that run was measured, not how far another seed would land from it.
"""


def keep(runs: Sequence[Path], directory: Path) -> None:
    """Copy the small files of finished runs into a collection."""
    for run in runs:
        result = read_result(run)
        with replacing_directory(directory / result.data / result.run) as target:
            for pattern in _KEPT:
                for file in run.glob(pattern):
                    shutil.copyfile(file, target / file.name)


def write_page(directory: Path) -> Path:
    page = directory / PAGE
    write_text(page, results_page(directory))
    return page


def check_page(directory: Path) -> None:
    """Refuse a page that is not what the files give."""
    page = directory / PAGE
    if not page.exists() or page.read_text(encoding="utf-8") != results_page(directory):
        raise UserError(
            f"{page} is not what the result files give; make it anew with `fewset results {directory}`"
        )


def results_page(directory: Path) -> str:
    """The page of a collection, as Markdown."""
    groups = sorted({file.parent.parent for file in directory.glob("*/*/result.json")})
    if not groups:
        raise UserError(f"there are no results in {directory}; add some with `fewset results --add RUN`")
    return "\n".join([_INTRODUCTION, *(_section(group) for group in groups)])


def _section(group: Path) -> str:
    runs = sorted(file.parent for file in group.glob("*/result.json"))
    results = sorted(read_results(runs), key=lambda result: (result.way, result.shot, result.score.mean))
    tables = (comparison_table(results), _origins(results))
    return "\n".join([f"## {group.name}\n", *(markdown_text(table) for table in tables)])


def _origins(results: Sequence[Result]) -> Table:
    """How each number was made."""
    columns = [
        Column(title, title) for title in ("Run", "Command", "Seed", "Training", "Commit", "torch", "Machine")
    ]
    rows = [
        (
            result.run,
            result.command,
            str(result.recipe.get("seed", "")),
            "–" if result.curves is None else f"{result.curves.seconds[-1] / 60:.1f} min",
            result.commit[:10] + ("+changes" if result.commit.endswith("+changes") else ""),
            str(result.versions.get("torch", "")),
            f"{result.versions.get('processor', '')}, {result.versions.get('threads', '')} threads",
        )
        for result in results
    ]
    return Table("How each number was made", tuple(columns), tuple(rows))
