"""Claims about every name, text or value: hypothesis looks for a counterexample."""

import io
import pickle
from contextlib import suppress
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewset.core.errors import UserError
from fewset.core.names import one_line, plain_name
from fewset.io.arrays import read_array
from fewset.io.paths import partial_of, partial_path
from fewset.io.pickles import read_pickle
from fewset.io.zips import leads_out

few = settings(max_examples=60, deadline=None, derandomize=True, database=None)
SYSTEMS = PurePosixPath, PureWindowsPath

texts = st.text(max_size=40)
names = st.one_of(texts, st.lists(st.sampled_from(["..", ".", "a", "/", "\\", "C:", "~", " "])).map("".join))
plain = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_subnormal=False),
        texts,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)


@few
@given(names)
def test_a_plain_name_is_one_name_on_every_system(name: str) -> None:
    with suppress(UserError):
        assert plain_name(name, "the name") == name == one_line(name)
        for system in SYSTEMS:
            assert (system("place") / name).parts == ("place", name)
        assert partial_of(partial_path(Path("place") / name)) == name


@few
@given(names)
def test_a_member_that_does_not_lead_out_stays_within(name: str) -> None:
    for system in () if leads_out(name) else SYSTEMS:
        parts = (system("place") / name).parts
        assert parts[:1] == ("place",)
        assert ".." not in parts


@few
@given(st.one_of(plain, st.binary(max_size=40)), st.sampled_from([1, 2, 3, 4, 5]))
def test_a_pickle_of_plain_values_comes_back_as_it_was_written(value: Any, protocol: int) -> None:
    assert repr(read_pickle(io.BytesIO(pickle.dumps(value, protocol)), "file")) == repr(value)


@few
@given(
    st.lists(st.integers(0, 4), max_size=3),
    st.sampled_from(["<i8", ">f4", "|u1", "<U3", "|S2", "|b1"]),
    st.integers(1, 3),
)
def test_an_array_comes_back_as_it_was_written_or_is_cut_off(shape: list[int], kind: str, cut: int) -> None:
    file, array = io.BytesIO(), np.zeros(shape, kind)
    np.save(file, array)
    assert read_array(io.BytesIO(file.getvalue())).tobytes() == array.tobytes()
    with pytest.raises((OSError, ValueError)):
        read_array(io.BytesIO(file.getvalue()[:-cut]))
