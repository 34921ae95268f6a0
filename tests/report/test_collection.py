import json
import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewset.core.errors import UserError
from fewset.paper.numbers import with_paper
from fewset.report.collection import keep
from fewset.report.collection import make_page as plain_page
from fewset.report.loading import load_result
from fewset.report.tables import text_of
from fewset.tasks.scores import compare
from tests.helpers.results import MakeRun, naive_score, per_task, write_result

ROOT = Path(__file__).parents[2]
make_page = partial(plain_page, annotate=with_paper)


def test_the_published_page_is_what_the_published_files_give() -> None:
    make_page(ROOT / "results" / "runs", ROOT / "docs" / "results", check=True)


def test_a_page_that_is_out_of_date_is_an_error(tmp_path: Path, make_run) -> None:
    runs = [make_run("strokes-protonet", method="ProtoNet"), make_run("strokes-feat", method="FEAT")]
    keep(runs, tmp_path / "kept")
    page = make_page(tmp_path / "kept")
    make_page(tmp_path / "kept", check=True)
    text = page.read_text()
    for run in runs:
        assert text_of(load_result(run).score) in text
    page.write_text(text.replace("FEAT", "FAST"))
    with pytest.raises(UserError, match="fewset results"):
        make_page(tmp_path / "kept", check=True)


def test_trainings_are_shown_epoch_by_epoch(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run("strokes-feat", method="FEAT")
    (run / "recipe.toml").write_text('name = "strokes-feat"\n[train]\nepochs = 2\n')
    keep([run], tmp_path / "kept")
    page = make_page(tmp_path / "kept")
    picture = tmp_path / "kept" / "strokes" / "curves-5way-1shot.png"
    assert "](strokes/curves-5way-1shot.png)" in page.read_text()
    assert picture.read_bytes().startswith(b"\x89PNG")
    picture.unlink()
    with pytest.raises(UserError, match=r"curves-5way-1shot\.png"):
        make_page(tmp_path / "kept", check=True)


def test_what_is_no_kept_run_is_not_lost(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run("feat", data="strokes")
    kept = tmp_path / "kept"
    keep([run], kept)
    keep([run], kept)  # an earlier one is replaced
    (kept / "strokes" / "feat" / "notes.txt").write_text("mine")
    for source in (run, kept / "strokes" / "feat"):
        with pytest.raises(UserError, match=r"notes.txt"):
            keep([source], kept)
    assert (kept / "strokes" / "feat" / "notes.txt").read_text() == "mine"
    shutil.copytree(run, tmp_path / "again")
    with pytest.raises(UserError, match="--set name=NAME"):
        keep([run, tmp_path / "again"], tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_page_of_somebody_else_is_not_replaced(tmp_path: Path, make_run: MakeRun) -> None:
    with pytest.raises(UserError, match="no results"):
        make_page(tmp_path)
    (tmp_path / "README.md").write_text("# Mine\n")
    with pytest.raises(UserError, match=r"README\.md"):
        keep([make_run("feat")], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "runs"]


def test_pictures_stay_in_the_collection(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run("feat", data="strokes")
    (run / "recipe.toml").write_text('name = "feat"\n[train]\nepochs = 2\n')
    keep([run], tmp_path / "kept")
    (tmp_path / "kept" / "strokes").rename(tmp_path / "elsewhere")
    (tmp_path / "kept" / "strokes").symlink_to("../elsewhere")
    with pytest.raises(UserError, match="strokes is a link"):
        make_page(tmp_path / "kept")
    assert not list((tmp_path / "elsewhere").glob("*.png"))


def other_result(run: Path, name: str, seed: int, **fields: Any) -> Path:
    """A result of the run on other tasks than its recipe's, in `RUN/results/`."""
    values = per_task(seed)
    folder = run / "results"
    folder.mkdir(exist_ok=True)
    for part in ("per_task", "per_task_seen"):
        np.save(folder / f"{name}.{part}.npy", values)
    score = {**naive_score(values), "per_task": f"{name}.per_task.npy"}
    seen = {**naive_score(values), "per_task": f"{name}.per_task_seen.npy"}
    record = json.loads((run / "result.json").read_text()) | {"before": None, "examples": None}
    (folder / f"{name}.json").write_text(json.dumps(record | score | {"scores": {"seen": seen}} | fields))
    return folder / f"{name}.json"


def test_the_other_results_of_a_run_are_kept_and_shown(tmp_path: Path, make_run) -> None:
    runs = [make_run("strokes-protonet"), make_run("strokes-feat", per_task(1), method="FEAT")]
    files = [
        other_result(run, name, seed + place, **fields)
        for place, run in enumerate(runs)
        for seed, name, fields in (
            (20, "wide", {"way": 20, "scores": {}}),
            (30, "gen", {"setting": "generalised", "command": "fewset eval --setting generalised"}),
        )
    ]
    keep(runs, tmp_path / "kept")
    lines = make_page(tmp_path / "kept").read_text().splitlines()
    headings = [line.removeprefix("### ") for line in lines if line.startswith("### ")]
    assert headings[:-1] == ["5-way 1-shot", "20-way 1-shot", "Generalised, 5-way 1-shot"]
    # Every number stands below its own heading, and every table has both methods.
    sections = "\n".join(lines).split("\n### ")[1:-1]
    for place, run in enumerate(runs):
        shown = [run / "result.json", *files[2 * place : 2 * place + 2]]
        for section, file in zip(sections, shown, strict=True):
            assert f"| {load_result(run).record.method} | {text_of(load_result(file).score)} |" in section
    assert "All scores of the setting generalised" in sections[2]
    assert sum("fewset eval --setting generalised" in line for line in lines) == 2


def test_kept_results_can_be_read_without_the_run(tmp_path: Path, make_run) -> None:
    run = make_run("strokes-feat", per_task(1), per_task(2), method="FEAT")
    file = other_result(run, "gen", 30, setting="generalised")
    keep([run], tmp_path / "kept")
    kept = tmp_path / "kept" / "strokes" / "strokes-feat"
    assert load_result(kept / "results" / "gen.json").scores["seen"].mean == load_result(file).score.mean
    assert not list(kept.rglob("*.npz"))
    assert load_result(kept).examples is None
    assert load_result(kept).record == replace(load_result(run).record, examples=None)
    keep([run], tmp_path / "kept")  # again: takes the place of the first
    assert len(list(kept.glob("results/*"))) == 3


def test_the_notes_of_a_group_are_put_below_its_tables_and_left_alone(tmp_path: Path, make_run) -> None:
    run, kept = make_run("strokes-protonet"), tmp_path / "kept"
    keep([run], kept)
    notes = "- Ours has *fewer* epochs_than | the paper's.\n"
    (kept / "strokes" / "notes.md").write_text(notes)
    keep([run], kept)
    assert (kept / "strokes" / "notes.md").read_text() == notes
    assert make_page(kept).read_text().endswith(f"### What differs, and why\n\n{notes}")
    (kept / "strokes" / "notes.md").write_text("- Something else.\n")
    with pytest.raises(UserError, match="fewset results"):
        make_page(kept, check=True)


def cells(page: str, method: str) -> dict[str, str]:
    """The row of a method in the first table of a page."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if "|" in line
    ]
    return dict(zip(rows[0], next(row for row in rows if row[0] == method), strict=True))


def miniimagenet_run(make_run: MakeRun, name: str, method: str, mean: float, init: str = "") -> Path:
    run = make_run(name, per_task(0, mean), method=method, data="miniimagenet", query=15)
    (run / "recipe.toml").write_text(
        f'[data]\nset = "miniimagenet"\n[model]\nbackbone = "conv4"\n[train]\ninit = "{init}"\nepochs = 0\n'
    )
    return run


def test_the_papers_number_stands_beside_ours(tmp_path: Path, make_run: MakeRun) -> None:
    methods = ("ProtoNet", "FEAT", "SimpleShot", "Supervised")
    keep([miniimagenet_run(make_run, method, method, 0.5) for method in methods], tmp_path)
    page = make_page(tmp_path).read_text()
    assert cells(page, "FEAT")["Paper"] == "55.15 ± 0.20"
    assert cells(page, "SimpleShot")["Paper"] == r"49.69\*"
    assert cells(page, "Supervised")["Paper"] == "–"
    assert r"\* SimpleShot: cited in the paper from elsewhere" in page
    assert "on miniImageNet, ConvNet." in page
    assert "Ours" not in page


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("test_time_flip = true", "Ours embed each image and its mirror image"),
        ('backbone_options.pool = "average"', "Ours end in an average"),
        ('backbone_options.pool = "maximum"', None),
    ],
)
def test_the_page_says_where_the_model_is_not_the_papers(
    setting: str, said: str | None, tmp_path: Path, make_run: MakeRun
) -> None:
    run = miniimagenet_run(make_run, "FEAT", "FEAT", 0.5)
    recipe = run / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("[train]", f"{setting}\n[train]"))
    keep([run], tmp_path)
    page = make_page(tmp_path).read_text()
    assert said in page if said else "Ours" not in page


def test_runs_of_the_same_method_are_told_apart(tmp_path: Path, make_run: MakeRun) -> None:
    runs = [
        miniimagenet_run(make_run, "large", "Supervised", 0.5, init="small"),
        miniimagenet_run(make_run, "small", "Supervised", 0.4),
        miniimagenet_run(make_run, "worse", "ProtoNet", 0.3),
        miniimagenet_run(make_run, "better", "ProtoNet", 0.6),
    ]
    keep(runs, tmp_path)
    page = make_page(tmp_path).read_text()
    scores = {run.name: load_result(run).score for run in runs}
    for method, name in (("Supervised", "large"), ("Supervised", "small"), ("ProtoNet", "worse")):
        row = cells(page, f"{method} ({name})")
        assert row["Accuracy"] == text_of(scores[name])
        assert row["Over ProtoNet (better)"] == text_of(compare(scores[name], scores["better"]))
    assert "| large | small | fewset train large |" in page
    assert "| small | – | fewset train small |" in page


def test_several_seeds_of_one_training_are_one_row(tmp_path: Path, make_run: MakeRun) -> None:
    runs = [miniimagenet_run(make_run, f"feat-{seed}", "FEAT", 0.5 + 0.01 * seed) for seed in (2, 0, 1)]
    for run, seed in zip(runs, (2, 0, 1), strict=True):
        recipe = run / "recipe.toml"
        recipe.write_text(f'name = "{run.name}"\nseed = {seed}\n' + recipe.read_text())
    protos = [miniimagenet_run(make_run, f"proto-{seed}", "ProtoNet", 0.4) for seed in (0, 1)]
    for seed, run in enumerate(protos):
        (run / "recipe.toml").write_text(f"seed = {seed}\n" + (run / "recipe.toml").read_text())
    other = miniimagenet_run(make_run, "longer", "FEAT", 0.4)
    (other / "recipe.toml").write_text(
        "seed = 3\n" + (other / "recipe.toml").read_text().replace("epochs = 0", "epochs = 9")
    )
    keep([*runs, *protos, other], tmp_path)
    page = make_page(tmp_path).read_text()
    scores = [load_result(run).score.mean for run in (runs[1], runs[2], runs[0])]
    assert cells(page, "FEAT (feat-0)")["Accuracy"] == text_of(load_result(runs[1]).score)
    assert cells(page, "FEAT (longer)")
    assert "FEAT (feat-1)" not in page
    numbers = " | ".join(f"{100 * value:.2f}" for value in (sum(scores) / 3, min(scores), max(scores)))
    pairs = zip((runs[1], runs[2]), protos, strict=True)
    over = ", ".join(text_of(compare(*(load_result(run).score for run in pair))) for pair in pairs)
    assert f"| FEAT | 0, 1, 2 | {numbers} | {over} |" in page
    assert re.search(r"\| ProtoNet \| 0, 1 \| [^|]+ \| [^|]+ \| [^|]+ \| – \|", page)
    assert all(f"| {run.name} |" in page for run in runs), "how each was made is still said"


@pytest.mark.parametrize("field", ["data", "run"])
@pytest.mark.parametrize("name", ["../outside", ".."])
def test_a_name_from_a_file_never_leads_elsewhere(
    make_run: MakeRun, tmp_path: Path, field: str, name: str
) -> None:
    run = make_run(**{field: name} if field == "data" else {"name": "proto"})
    write_result(run / "result.json", **{field: name})
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=r"cannot be the name of a|control characters"):
        keep([run], tmp_path / "kept" / "deep")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_collection_goes_through_no_link(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run("strokes-feat")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / load_result(run).record.data).symlink_to("../elsewhere")
    with pytest.raises(UserError, match="is a link"):
        keep([run], tmp_path / "kept")
    assert not any((tmp_path / "elsewhere").iterdir())


def test_rows_say_on_how_many_tasks_they_were_trained(tmp_path: Path, make_run: MakeRun) -> None:
    """With those of the run that they start from first; where rows differ, a note marks the table."""
    recipe = '[train]\nepochs = {}\ntasks_per_epoch = 100\ninit = "{}"\n'
    runs = {"plain": ("ProtoNet", 7, "pretrained"), "feat": ("FEAT", 12, "plain")}
    for name, (method, epochs, init) in runs.items():
        run = make_run(name, per_task(epochs), method=method, data="strokes")
        (run / "recipe.toml").write_text(f'name = "{name}"\n{recipe.format(epochs, init)}')
        keep([run], tmp_path / "kept")
    page = make_page(tmp_path / "kept").read_text()
    assert "| ProtoNet | 700 |" in page
    assert "| FEAT | 700 + 1,200 |" in page
    assert "were not trained equally" in page
    shutil.rmtree(tmp_path / "kept" / "strokes" / "feat")
    assert "were not trained equally" not in make_page(tmp_path / "kept").read_text()


def test_a_gcn_is_called_after_its_graph(tmp_path: Path, make_run: MakeRun) -> None:
    run = make_run("gcn", method="GCN", data="strokes")
    options = '[model]\nadapter = "gcn"\n[model.adapter_options]\ngraph = "similarity"\n'
    (run / "recipe.toml").write_text(f'name = "gcn"\n[train]\nepochs = 0\n{options}')
    keep([run], tmp_path / "kept")
    assert "| GCN, similarity graph |" in make_page(tmp_path / "kept").read_text()
