"""A run directory may have any name, that of the folder of a run's further results, too."""

import numpy as np

from fewset.report.loading import load_result
from tests.helpers.results import MakeRun, naive_score, per_task, write_result


def test_a_run_called_results_keeps_its_recipe(make_run: MakeRun) -> None:
    run = make_run("results")
    for result in (load_result(run), load_result(run / "result.json")):
        assert result.directory == run
        assert result.recipe["name"] == "results"
        assert result.curves is not None


def test_further_results_of_a_run_called_results_are_its_own(make_run: MakeRun) -> None:
    run = make_run("results")
    values = per_task(3, tasks=43)
    (run / "results").mkdir()
    np.save(run / "results" / "other.per_task.npy", values)
    other = run / "results" / "other.json"
    other.write_text((run / "result.json").read_text())
    write_result(other, tasks=43, shot=7, per_task="other.per_task.npy", **naive_score(values))
    result = load_result(other)
    assert (result.shot, result.directory) == (7, run)
    assert result.recipe["name"] == "results"
