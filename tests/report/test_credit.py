"""What the report says of the set: no more than its controls show."""

from typing import Any, cast

import pytest

from fewset.report.comparison import Comparison
from fewset.report.page import summary
from fewset.tasks.scores import Difference


def said(adds: Difference, over_foreign: Difference | None) -> str:
    item = Comparison(cast(Any, None), "FEAT", None, adds, over_foreign, None, None, alone=False, tasks=100)
    return " ".join(summary([item]))


@pytest.mark.parametrize("adds", [Difference(0.0004, 0.0006), Difference(-0.0004, 0.0006)])
def test_a_difference_that_may_be_0_is_not_credited(adds: Difference) -> None:
    assert said(adds, Difference(0.01, 0.001)).startswith("That the set adds anything cannot be shown")


def test_what_another_task_would_have_added_is_said_beside_it() -> None:
    text = said(Difference(0.0094, 0.0006), Difference(0.0005, 0.0005))
    assert text.startswith("The set itself adds 0.94 ± 0.06 points")
    assert "another task in place of the rest of the set, it is +0.05 ± 0.05 points" in text
    assert "another task" not in said(Difference(0.0094, 0.0006), None)
