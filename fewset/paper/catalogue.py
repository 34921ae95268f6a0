"""The studies: one function for each table or figure of the paper.

A new one is a function from a `StudyRunner` to a `StudyPlan`, and a name in `STUDIES`.
"""

from pathlib import Path

from fewset.core.errors import UserError
from fewset.data.features.table import SETUPS, list_features, open_features, table_path
from fewset.experiments.embed_set import OF_A_RUN, embed_table, made_from
from fewset.paper.ablations import ABLATIONS, SHOTS, named
from fewset.paper.qualitative import picture_tasks
from fewset.paper.runner import StudyRunner
from fewset.paper.study import PlannedNumber, PlannedRun, StudyPlan

# Methods as tables call them; their recipes have the same names in small letters.
_ADAPTED = ("ProtoNet", "BiLSTM", "DeepSets", "GCN", "FEAT")
_BENCHMARKED = ("MatchNet", "SimpleShot", *_ADAPTED)
_HELD_OUT = 0.25  # 150 of miniImageNet's 600 images of a class


def benchmark(runner: StudyRunner) -> StudyPlan:
    """The main table: every method at 1 and 5 shots."""
    return StudyPlan(
        "Few-shot classification",
        tuple(
            PlannedNumber(method, column, PlannedRun(method.lower(), shot))
            for method in _BENCHMARKED
            for column, shot in SHOTS.items()
        ),
        corner="method",
        notes=_not_the_papers(runner),
    )


def _not_the_papers(runner: StudyRunner) -> tuple[str, ...]:
    """How the set-to-set functions of the recipes differ from those of the paper."""
    adapted = {
        method: runner.recipe(PlannedRun(method.lower(), 5)).model.adapter_options
        for method in ("BiLSTM", "DeepSets", "GCN")
    }
    notes = ["BiLSTM joins two directions of half the width; the paper's formula adds two full ones."]
    if adapted["GCN"].get("graph") == "similarity":
        notes.append("GCN has a graph of similarities; the paper's is of the labels.")
    normed = [method for method, options in adapted.items() if options.get("norm")]
    if normed:
        notes.append(f"A LayerNorm, which the paper's do not have, ends {', '.join(normed)}.")
    return tuple(notes)


def ways(runner: StudyRunner) -> StudyPlan:
    """Interpolation and extrapolation: trained at 5 or 20 ways, scored at 5 to 20."""

    def run(method: str, shot: int, way: int) -> PlannedRun:
        changes = f"train.way={way}", f"train.query={15 if way == 5 else 5}"
        return PlannedRun(method.lower(), shot, f"{way}-way", changes)

    return StudyPlan(
        "Tasks with other ways than in training",
        tuple(
            PlannedNumber(
                method,
                str(way),
                run(method, shot, trained),
                panel=f"{shot}-shot, trained {trained}-way",
                tasks={"way": way},
            )
            for shot in SHOTS.values()
            for trained in (5, 20)
            for method in _ADAPTED
            for way in (5, 10, 15, 20)
        ),
        corner="method",
        columns_title="ways",
        style="lines",
        notes=(
            "Training tasks have 15 queries a class at 5 ways and 5 at 20 ways.",
            *_not_the_papers(runner),
        ),
    )


def shots(_: StudyRunner) -> StudyPlan:
    """Accuracy by the number of labelled images of a class, of models trained with 1 and with 5 of them."""
    return StudyPlan(
        "Tasks with other shots than in training",
        tuple(
            PlannedNumber(
                method,
                str(shot),
                PlannedRun(method.lower(), trained),
                panel=f"trained {trained}-shot",
                tasks={"shot": shot},
            )
            for trained in SHOTS.values()
            for method in ("ProtoNet", "FEAT")
            for shot in (1, 2, 3, 5, 10, 20)
        ),
        corner="method",
        columns_title="shots",
        style="lines",
    )


def transductive(runner: StudyRunner) -> StudyPlan:
    """Queries classified one by one, and together."""

    def with_queries(method: str, shot: int, tag: str, *changes: str) -> PlannedRun:
        """Trained with the queries, on tasks with as many of them as those that are scored."""
        scored = runner.recipe(PlannedRun(method, shot)).evaluate
        sizes = f"train.way={scored.way}", f"train.query={scored.query}"
        return PlannedRun(method, shot, tag, (*changes, *sizes))

    def rows(shot: int) -> dict[str, tuple[PlannedRun, str]]:
        feat = PlannedRun("feat-transductive", shot)
        if not runner.has(feat):
            feat = with_queries("feat", shot, "transductive", "model.transductive=true")
        changes = 'model.head="semi_prototype"', 'model.average="post"'
        refined = with_queries("protonet", shot, "semi", *changes)
        return {
            "ProtoNet": (PlannedRun("protonet", shot), ""),
            "FEAT": (PlannedRun("feat", shot), ""),
            "Semi-ProtoNet": (refined, "semi-protonet"),
            "FEAT†": (feat, "dagger"),
            "FEAT‡": (feat, "double-dagger"),
        }

    return StudyPlan(
        "Transductive few-shot classification",
        tuple(
            PlannedNumber(
                row,
                column,
                run,
                setting="transductive" if variant else "standard",
                options={"variant": variant} if variant else {},
            )
            for column, shot in SHOTS.items()
            for row, (run, variant) in rows(shot).items()
        ),
        corner="method",
        notes=(
            "† adapts the labelled items together with the queries; ‡ also refines the prototypes with the "
            "adapted queries, as Semi-ProtoNet does. The models of the last three rows are trained with the "
            "queries: FEAT's with the queries in the set, Semi-ProtoNet's with refined prototypes.",
            *_own_start(runner),
        ),
    )


def _own_start(runner: StudyRunner) -> list[str]:
    """How the FEAT that is trained with queries differs from the other one, where it has recipes."""
    runs = [PlannedRun("feat-transductive", shot) for shot in SHOTS.values()]
    if not all(map(runner.has, runs)):
        return []
    options = [runner.recipe(run).model.adapter_options for run in runs]
    counts, starts = (
        " and ".join(str(each.get(key, default)) for each in options)
        for key, default in (("layers", 1), ("mean_start", 0))
    )
    return [
        f"FEAT† and FEAT‡ are not FEAT with queries in its set: at 1 and 5 shots they have {counts} layers, "
        f"and start as prototypes that are moved to the queries that are like them (mean_start {starts})."
    ]


def generalised(_: StudyRunner) -> StudyPlan:
    """Seen and unseen classes together, with the curve of one against the other."""
    scores = {"SEEN": "seen", "UNSEEN": "unseen", "COMBINED": "combined", "harmonic mean": "harmonic"}
    return StudyPlan(
        "Generalised few-shot classification",
        tuple(
            PlannedNumber(
                method,
                column,
                PlannedRun(method.lower(), shot, "held-out", (f"data.hold_out={_HELD_OUT}",)),
                panel=f"{shot}-shot learning",
                setting="generalised",
                score=score,
            )
            for shot in SHOTS.values()
            for method in ("ProtoNet", "FEAT")
            for column, score in scores.items()
        ),
        corner="method",
        notes=(
            "COMBINED and the harmonic mean (of seen and unseen accuracy among all classes) are at the "
            "constant that was chosen on validation tasks.",
        ),
    )


def cross_domain(runner: StudyRunner) -> StudyPlan:
    """Trained in one domain; shots from it or another, queries from it or another."""
    domains = runner.images.domain_names
    if len(domains) < 2:
        raise UserError(
            f"the set {runner.images.name!r} has {len(domains) or 'no'} domains, but this study needs two; "
            "import one with `fewset data import domains`"
        )
    trained = runner.recipe(PlannedRun("pretrain")).data.domain or domains[0]
    other = next(domain for domain in domains if domain != trained)
    columns = {"A → A": (trained, trained), "A → B": (trained, other), "B → B": (other, other)}
    rows = {"Supervised": "pretrain", "ProtoNet": "protonet", "FEAT": "feat"}

    def run(method: str) -> PlannedRun:
        shot = None if method == "pretrain" else 1
        return PlannedRun(method, shot, f"on-{trained}", (f"data.domain={trained}",))

    def pictures(out: Path, pages: Path | None) -> list[Path]:
        made = runner.make(run("feat"))
        return picture_tasks(made, runner.images, trained, other, out, pages, runner.device)

    return StudyPlan(
        f"Few-shot domain generalisation, trained on {trained}",
        tuple(
            PlannedNumber(
                row,
                f"{support} → {query}",
                run(method),
                setting="cross-domain",
                options={"support_domain": support, "query_domain": query},
            )
            for row, method in rows.items()
            for support, query in columns.values()
        ),
        corner="method",
        column_keys={f"{support} → {query}": key for key, (support, query) in columns.items()},
        pictures=pictures,
    )


def low_shot(runner: StudyRunner) -> StudyPlan:
    """Top-5 accuracy from a table of features: unseen classes, all classes, all with a prior.

    Without `--features` it is the set as its pre-trained backbone embeds it. The prior is selected where a
    table that the user names has a validation setup to select it on.
    """
    table, named = runner.features or runner.recipe(PlannedRun("pretrain")).name, runner.features is not None
    selected = named and SETUPS.index("validation") in open_features(table).setups
    panels = {"Unseen": "top5_unseen", "All": "top5_all", "All with prior": "top5_all_with_prior"}
    prior = (
        "selected for each row and number of shots on the validation setup"
        if selected
        else "0.8: no table with a validation setup was named"
    )
    places = (f"{runner.on}/low-shot", f"{runner.on}-low-shot", "low-shot")
    on = next(place for place in places if runner.has(PlannedRun("feat", on=place)))

    def run(method: str, *control: str) -> PlannedRun:
        tag = f"{table}-alone" if control else table
        return PlannedRun(method, None, tag, (f"data.set={table}", *control), on=on)

    rows = {
        "ProtoNet": run("protonet"),
        "SimpleShot": run("simpleshot"),
        "FEAT on sets of one": run("feat", "model.sets_of_one=true"),
        "FEAT": run("feat"),
    }
    return StudyPlan(
        "Large-scale low-shot learning, top-5 accuracy",
        tuple(
            PlannedNumber(
                row,
                f"{shot}-shot",
                made,
                panel=panel,
                setting="low-shot",
                options={"prior": "auto", "setup": "test"} if selected else {},
                tasks={"shot": shot},
                score=score,
            )
            for panel, score in panels.items()
            for row, made in rows.items()
            for shot in (1, 2, 5, 10, 20)
        ),
        corner="method",
        style="lines",
        notes=(
            f"The prior of an unseen class is {prior}.",
            "FEAT on sets of one is trained so: the same function without its set.",
        ),
        prepare=lambda: None if runner.features else _embed_the_set(runner),
    )


def _embed_the_set(runner: StudyRunner) -> None:
    """Make the table of the set's images as its pre-trained backbone embeds them.

    A table that a study has made from other weights or images is replaced.
    """
    run = runner.make(PlannedRun("pretrain"))
    try:
        there = open_features(run.name).manifest if run.name in list_features() else {}
    except UserError:  # damaged
        there = {}
    if there.get("made_from") != made_from(run, runner.images):
        if there and not there["source"].startswith(OF_A_RUN):
            raise UserError(
                f"the table of features {run.name!r} came from {there['source']!r}, not from {run} as it is "
                f"now: to use it, say --features {run.name}; else remove {table_path(run.name)}"
            )
        runner.echo(f"features: {run.name}")
        embed_table(run, run.name, device=runner.device)


STUDIES = named(benchmark, ways, shots, transductive, generalised, cross_domain, low_shot) | ABLATIONS
