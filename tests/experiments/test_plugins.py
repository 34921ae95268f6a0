"""Plugin files: executed once, and whatever is wrong with one is said on one line."""

from pathlib import Path

import pytest

from fewset.core.errors import UserError
from fewset.experiments.plugins import load_plugin
from fewset.models.adapters import ADAPTERS

ADAPTER = """
from torch import nn
from fewset import register_adapter

@register_adapter("mine")
class Mine(nn.Module):
    pass
"""


def test_a_plugin_is_executed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(ADAPTER)
    load_plugin(plugin)
    mine = ADAPTERS["mine"]
    monkeypatch.chdir(tmp_path)
    load_plugin(Path("mine.py"))  # the same file by another path
    assert ADAPTERS["mine"] is mine


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("\n1 / 0", "mine.py, line 2, cannot be loaded (ZeroDivisionError: division by zero); fix the file"),
        (
            "from fewset import register_head\nregister_head('matching')(int)",
            "line 2, cannot be loaded (UserError: the head name 'matching' is taken by "
            "fewset.models.heads.matching.MatchingHead; choose another)",
        ),
    ],
    ids=["raises", "takes a name"],
)
def test_a_plugin_that_raises_is_named_on_one_line(tmp_path: Path, code: str, message: str) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text(code)
    for _ in range(2):  # it is not taken for loaded
        with pytest.raises(UserError) as caught:
            load_plugin(plugin)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
        assert str(plugin) in str(caught.value)


def test_a_path_that_is_not_a_python_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no plugin file .*absent\.py"):
        load_plugin(tmp_path / "absent.py")
    with pytest.raises(UserError, match="there is no plugin file"):
        load_plugin(tmp_path)
    (tmp_path / "mine.txt").write_text(ADAPTER)
    with pytest.raises(UserError, match=r"is not a Python file; a plugin's name ends in \.py"):
        load_plugin(tmp_path / "mine.txt")
