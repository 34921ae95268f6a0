from pathlib import Path

import pytest

from fewset.core.errors import UserError
from fewset.io.inside import inside


def test_no_link_on_the_way_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "b").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "a").symlink_to("../elsewhere")
    for part in ("a", "a/b", Path("a") / "absent"):
        with pytest.raises(UserError, match="here/a is a link"):
            inside(tmp_path / "here", part)
    assert inside(tmp_path / "here", "b/c") == tmp_path / "here" / "b" / "c"


def test_the_directory_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").symlink_to("elsewhere")
    assert inside(tmp_path / "here", "a") == tmp_path / "here" / "a"
