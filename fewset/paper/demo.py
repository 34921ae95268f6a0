"""The main job on the embedded set, from nothing to a report."""

from collections.abc import Callable, Sequence
from pathlib import Path

from fewset.data.images.store import open_set
from fewset.experiments.recipes import find_recipe, read_recipe
from fewset.experiments.train_run import execute
from fewset.io.files import write_bytes
from fewset.report.family_figure import family_figure
from fewset.report.figures import png
from fewset.report.loading import load_results
from fewset.report.page import build_report
from fewset.report.tables import comparison_table, plain_text

METHODS = ("protonet", "norm", "itemwise", "feat", "weighing")
STAGES = tuple(f"families/conv4-{name}" for name in ("pretrain", *METHODS))


def demo(
    out: Path,
    echo: Callable[[str], None],
    device: str = "auto",
    stages: Sequence[str | Path] = STAGES,
    log_to: Sequence[str] = (),
) -> None:
    """Pre-train, meta-train every method, score each on the same 10,000 tasks, make the report.

    What an earlier, interrupted demo has finished is not done again. `stages` are the recipes, by name or by
    path, in the order in which they start from each other. `log_to` are trackers by name.
    """
    runs = []
    for number, name in enumerate(stages, start=1):
        recipe = read_recipe(find_recipe(name))
        echo(f"[{number}/{len(stages)}] {recipe.method}: {name}")
        directory = out / recipe.name
        execute(recipe, recipe.kind, directory, resume=True, device=device, echo=echo, log_to=log_to)
        if recipe.kind == "train":
            runs.append(directory)
    page = build_report(runs, out)
    picture = out / "families.png"
    write_bytes(picture, png(family_figure(open_set("families"))))
    echo(plain_text(comparison_table(load_results(runs))))
    echo(f"runs: {', '.join(map(str, runs))}")
    echo(f"families: {picture}")
    echo(f"report: {page}")
