import pytest

from fewset.runtime.errors import UserError
from fewset.tasks.spec import TaskSpec


@pytest.mark.parametrize("name", ["way", "shot", "query", "tasks"])
def test_a_spec_refuses_zero(name: str) -> None:
    with pytest.raises(UserError, match=f"{name} is 0, expected 1 or more"):
        TaskSpec(**{name: 0})


@pytest.mark.parametrize("name", ["way", "shot", "query", "tasks"])
def test_a_spec_refuses_what_no_machine_holds(name: str) -> None:
    with pytest.raises(ValueError, match=rf"{name} is {2**64}, expected at most "):
        TaskSpec(**{name: 2**64})
