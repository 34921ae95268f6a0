"""Libraries of extras that are not installed."""

import sys

import pytest

from fewset.core.errors import UserError
from fewset.core.extras import as_missing_extra, import_extra, imports


def test_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    assert not imports("h5py")
    with pytest.raises(UserError, match=r"^h5py is not installed .*: pip install 'fewset\[hdf5\]'$"):
        import_extra("h5py", "hdf5")


def test_an_import_at_the_top_of_a_file_names_the_extra_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ModuleNotFoundError) as caught:
        import jinja2  # noqa: F401
    assert "pip install 'fewset[report]'" in str(as_missing_extra(caught.value))


@pytest.mark.parametrize("error", [ModuleNotFoundError("no module", name="fewset.moved"), KeyError("jinja2")])
def test_other_errors_are_defects(error: Exception) -> None:
    assert as_missing_extra(error) is None
