import subprocess
import sys

import pytest

from fewset.core.errors import UserError
from fewset.tasks.spec import TaskSpec


@pytest.mark.parametrize("name", ["way", "shot", "query", "tasks"])
def test_a_spec_refuses_zero(name: str) -> None:
    with pytest.raises(UserError, match=f"{name} is 0, expected 1 or more"):
        TaskSpec(**{name: 0})


@pytest.mark.parametrize("name", ["way", "shot", "query", "tasks"])
def test_a_spec_refuses_what_no_machine_holds(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} is {2**64}, expected at most "):
        TaskSpec(**{name: 2**64})


def test_a_spec_refuses_what_is_no_whole_number() -> None:
    """In a process of its own: in this one the types of all arguments are checked before."""
    program = """
from fewset import TaskSpec
for name in ("way", "shot", "query", "tasks", "seed"):
    for value in (1.5, "3", None, float("nan")):
        try:
            TaskSpec(**{name: value})
        except ValueError as error:
            assert "whole number" in str(error), error
        else:
            raise AssertionError((name, value))
"""
    subprocess.run([sys.executable, "-c", program], check=True)
