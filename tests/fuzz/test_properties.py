"""Claims about every name, text or value: hypothesis looks for a counterexample."""

import io
import json
import pickle
import tempfile
import tomllib
from contextlib import suppress
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewset.core.errors import UserError
from fewset.core.names import one_line, plain_name
from fewset.experiments.recipes import parse_recipe, read_recipe, recipe_text
from fewset.io.arrays import read_array
from fewset.io.paths import partial_of, partial_path
from fewset.io.pickles import read_pickle
from fewset.io.reading import parse_json
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
@given(plain)
def test_json_comes_back_as_it_was_written(value: Any) -> None:
    assert repr(parse_json(json.dumps(value))) == repr(value)  # which tells 1 from 1.0 and from True


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


keys = st.sampled_from(
    ["train.epochs", "train.augment", "data.set", "model", "train.optimiser.lr", "name", "seed"]
)
overrides = st.builds("{}={}".format, st.one_of(keys, texts), st.one_of(texts, plain.map(json.dumps)))


@few
@given(st.lists(overrides, max_size=3))
def test_overrides_make_a_recipe_that_can_be_written_or_a_user_error(given_overrides: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "one.toml"
        file.write_text('name = "one"\n[train]\n')
        with suppress(UserError):
            recipe = read_recipe(file, given_overrides)
            assert parse_recipe(tomllib.loads(recipe_text(recipe))) == recipe
