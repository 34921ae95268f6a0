import pytest

from fewset.core.errors import UserError
from fewset.tasks.spec import TaskSpec


@pytest.mark.parametrize("name", ["way", "shot", "query", "tasks"])
@pytest.mark.parametrize("value", [0, 2**64])
def test_a_spec_rejects_what_is_out_of_range(name: str, value: int) -> None:
    with pytest.raises(UserError, match=f"{name} is {value}, expected 1 to"):
        TaskSpec(**{name: value})
