"""A collection of kept results, and the page that is made from it: nothing on the page is written by hand.

A collection is a directory `GROUP/RUN/` of the small files of runs (no weights); a group is an image set. The
results of a run on other tasks than its recipe's are in `GROUP/RUN/results/`, as in the run itself.
"""

import shutil
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from fewset.errors import UserError
from fewset.files import replacing_directory, write_text
from fewset.report.results import TASK_FIELDS, Result, compare_results, read_result, read_results
from fewset.report.tables import (
    Column,
    Table,
    comparison_table,
    describe_tasks,
    escape_markdown,
    markdown_text,
    score_tables,
)

PAGE = "README.md"
_KEPT = (
    "result.json",
    "recipe.toml",
    "metrics.jsonl",
    "*.npy",
    "examples.npz",
    "results/*.json",
    "results/*.npy",
    "results/*.npz",
)

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
                    kept = target / file.relative_to(run)
                    kept.parent.mkdir(exist_ok=True)
                    shutil.copyfile(file, kept)


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
    """The results of an image set: those on the same tasks side by side, then how each was made."""
    results = read_results(sorted([*group.glob("*/result.json"), *group.glob("*/results/*.json")]))
    results.sort(key=_order)
    parts = [f"## {group.name}\n"]
    shown: list[Result] = []
    protocols = [list(same) for _, same in groupby(results, key=_protocol)]
    for protocol in protocols:
        protocol.sort(key=lambda result: result.score.mean)
        if len(protocols) > 1:
            parts.append(f"### {escape_markdown(describe_tasks(protocol[0], count=False))}\n")
        tables = [comparison_table(protocol), *score_tables(compare_results(protocol))]
        parts += map(markdown_text, tables)
        shown += protocol
    return "\n".join([*parts, markdown_text(_origins(shown))])


def _order(result: Result) -> tuple[Any, ...]:
    """The standard setting first, smaller tasks before larger ones; results on the same tasks together."""
    standard = result.setting == "standard"
    return not standard, result.setting, result.domain or "", result.way, result.shot, str(_protocol(result))


def _protocol(result: Result) -> tuple[Any, ...]:
    """What results must agree on to stand in one table."""
    return tuple(getattr(result, name) for name in TASK_FIELDS)


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
