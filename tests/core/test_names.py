"""Names that may become part of a path."""

import pytest

from fewset.core.errors import UserError
from fewset.core.names import LONGEST, one_line, plain_name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        *((name, "empty, or begins or ends") for name in ("", ".", "..", ".hidden", " a", "a ", "a.")),
        *((name, "in it") for name in ("../out", "/elsewhere", "a\\b", "C:x", "what?")),
        *((name, "cannot be printed") for name in ("a\nb", "a\0b", "a\ud800b", "a\u202eb")),
        *((name, "device") for name in ("NUL", "con .txt", "lpt9.json")),
        ("é" * (LONGEST // 2 + 1), "longer than 200 bytes"),
    ],
)
def test_a_name_that_some_systems_cannot_have_is_rejected_on_one_line(name: str, why: str) -> None:
    with pytest.raises(UserError, match="cannot be the name of a folder or a file") as caught:
        plain_name(name, "the run")
    assert why in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", ["a", "blue sky", "-3", "Ärger (2)", "a.b", "é" * (LONGEST // 2), "console"])
def test_other_names_stay_as_they_are(name: str) -> None:
    assert plain_name(name, "the run") == name


@pytest.mark.parametrize("name", ["می\u200cخواهم", "👩\u200d🌾"])
def test_joiners_are_part_of_words_and_of_emoji(name: str) -> None:
    assert plain_name(name, "the class") == one_line(name) == name


def test_a_name_on_one_line() -> None:
    assert one_line("a\nb\ud800c") == "a?b?c"
