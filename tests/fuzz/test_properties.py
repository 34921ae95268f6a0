"""What holds for any name, text or value: hypothesis looks for one for which it does not."""

import io
import json
import pickle
import tempfile
import tomllib
from math import isnan
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np
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

texts = st.text(max_size=40)
names = st.one_of(texts, st.lists(st.sampled_from(["..", ".", "a", "/", "\\", "C:", "~", " "])).map("".join))
plain = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(allow_subnormal=False), texts
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)


@few
@given(names)
def test_a_plain_name_is_one_name_on_every_system(name: str) -> None:
    try:
        kept = plain_name(name, "the name")
    except UserError as error:
        one_line_of(error)
        return
    assert kept == name == one_line(name)
    for system in (PurePosixPath, PureWindowsPath):
        assert (system("place") / name).parts == ("place", name)
    assert partial_of(partial_path(Path("place") / name)) == name


@few
@given(names)
def test_a_member_that_does_not_lead_out_stays_within(name: str) -> None:
    if leads_out(name):
        return
    for system in (PurePosixPath, PureWindowsPath):
        within = system("place") / name
        assert within.parts[:1] == ("place",)
        assert ".." not in within.parts


@few
@given(plain)
def test_json_that_is_read_is_what_was_written(value: Any) -> None:
    assert same(parse_json(json.dumps(value)), value)


@few
@given(texts)
def test_a_text_is_json_or_a_value_error(text: str) -> None:
    try:
        parse_json(text)
    except ValueError:
        return
    json.loads(text)


@few
@given(st.one_of(plain, st.binary(max_size=40)), st.sampled_from([1, 2, 3, 4, 5]))
def test_a_pickle_of_plain_values_is_read_as_it_is(value: Any, protocol: int) -> None:
    assert same(read_pickle(io.BytesIO(pickle.dumps(value, protocol)), "file"), value)


@few
@given(st.binary(max_size=200))
def test_bytes_are_a_pickle_or_one_line(data: bytes) -> None:
    try:
        read_pickle(io.BytesIO(data), "file")
    except UserError as error:
        one_line_of(error)


@few
@given(
    st.lists(st.integers(0, 4), max_size=3),
    st.sampled_from(["<i8", ">f4", "|u1", "<U3", "|S2", "|b1"]),
    st.integers(0, 3),
)
def test_an_array_is_read_as_it_was_written(shape: list[int], kind: str, cut: int) -> None:
    file = io.BytesIO()
    np.save(file, np.zeros(shape, kind))
    data = file.getvalue()
    assert read_array(io.BytesIO(data)).tobytes() == np.zeros(shape, kind).tobytes()
    if cut:
        try:
            read_array(io.BytesIO(data[: len(data) - cut]))
        except (OSError, ValueError):
            return
        raise AssertionError("an array that was cut off was read")


keys = st.one_of(
    st.sampled_from(
        ["train.epochs", "train.augment", "data.set", "model", "train.optimiser.lr", "name", "seed"]
    ),
    texts,
)
overrides = st.builds("{}={}".format, keys, st.one_of(texts, plain.map(lambda value: json.dumps(value))))


@few
@given(st.lists(overrides, max_size=3))
def test_any_override_makes_a_recipe_that_can_be_written_or_is_refused(given_overrides: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "one.toml"
        file.write_text('name = "one"\n[train]\n')
        try:
            recipe = read_recipe(file, given_overrides)
        except UserError:
            return
    assert parse_recipe(tomllib.loads(recipe_text(recipe))) == recipe


def one_line_of(error: UserError) -> None:
    assert "\n" not in str(error)


def same(found: Any, value: Any) -> bool:
    if isinstance(value, float):
        return isinstance(found, float) and (found == value or (isnan(found) and isnan(value)))
    if isinstance(value, list):
        return len(found) == len(value) and all(map(same, found, value))
    if isinstance(value, dict):
        return found.keys() == value.keys() and all(same(found[key], value[key]) for key in value)
    return type(found) is type(value) and bool(found == value)
