"""The main job on the embedded set, from nothing to a report."""

from collections.abc import Callable
from pathlib import Path

from fewset.recipes import find_recipe, read_recipe
from fewset.report.page import build_report
from fewset.runs import execute

_STAGES = ("strokes/pretrain", "strokes/protonet", "strokes/feat")


def demo(out: Path, say: Callable[[str], None]) -> Path:
    """Pre-train, meta-train ProtoNet and FEAT, score both on 10,000 tasks; returns the report's path.

    What an earlier, interrupted demo has finished is not done again.
    """
    runs = []
    for number, name in enumerate(_STAGES, start=1):
        recipe = read_recipe(find_recipe(name))
        say(f"[{number}/{len(_STAGES)}] {recipe.method}: {name}")
        kind = "pretrain" if recipe.pretrain is not None else "train"
        execute(recipe, kind, out / recipe.name, resume=True)
        if kind == "train":
            runs.append(out / recipe.name)
    return build_report(runs, out)
