"""The mutator: drawn from a seed, always different, and past the checksums where that is meant."""

import io
import json
import struct
import tomllib
import zipfile
import zlib
from random import Random

import numpy as np
import pytest

from tests.helpers.containers import changed_npy, changed_png, changed_safetensors, changed_zip, packed_zip
from tests.helpers.damage import (
    Spared,
    altered,
    damaged,
    flipped,
    json_text,
    nested,
    odd_text,
    odd_value,
    toml_text,
)
from tests.helpers.trees import picture

VALUE = {"name": "x", "shares": [1, 2.5, None], "deep": {"flag": True, "text": "y"}}


def test_the_same_seed_gives_the_same_damage_and_others_other() -> None:
    data = bytes(range(256)) * 3
    found = [damaged(data, Random(seed)) for seed in range(50)]
    assert found == [damaged(data, Random(seed)) for seed in range(50)]
    assert len(set(found)) > 40
    assert damaged(b"", Random(0)) is not None
    values = [json_text(altered(VALUE, Random(seed))) for seed in range(50)]
    assert values == [json_text(altered(VALUE, Random(seed))) for seed in range(50)]
    assert len(set(values)) > 40
    assert VALUE == {"name": "x", "shares": [1, 2.5, None], "deep": {"flag": True, "text": "y"}}


def test_what_is_spared_stays_as_it_is() -> None:
    png = picture(1)
    assert damaged(png, Spared(0)) == changed_png(png, Spared(0)) == png
    assert altered(VALUE, Spared(0)) == VALUE
    assert json.loads(json_text(VALUE)) == VALUE
    table = {key: value for key, value in VALUE.items() if key != "shares"}
    assert tomllib.loads(toml_text(table)) == table


def test_deep_nests_are_written() -> None:
    deep = nested(60_000, Random(0))
    assert len(json_text({"a": [deep]})) > 120_000
    with pytest.raises(RecursionError):
        json.loads(json_text({"a": [deep]}))


def test_chunks_of_png_files_have_right_checksums() -> None:
    png = picture(1)
    for seed in range(50):
        data, place = changed_png(png, Random(seed)), 8
        while place < len(data):
            (length,) = struct.unpack(">I", data[place : place + 4])
            chunk = data[place + 4 : place + 8 + length]
            assert struct.pack(">I", zlib.crc32(chunk)) == data[place + 8 + length : place + 12 + length]
            place += 12 + length


def test_members_of_zip_files_are_changed_behind_their_checksums() -> None:
    whole, changed = packed_zip([("a", b"abc" * 99), ("b/c", b"def" * 99)]), 0
    for seed in range(60):
        data = changed_zip(whole, Random(seed), lambda content: content[:-1])
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                changed += archive.testzip() is None and data != whole
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError):
            continue  # one that lies
    assert changed > 30


def test_some_zip_files_have_a_bit_flipped_after_they_were_packed() -> None:
    whole, wrong = packed_zip([("a", b"abc" * 99), ("b/c", b"def" * 99)]), 0
    for seed in range(60):
        data = flipped(whole, Random(seed))
        (bit,) = (a ^ b for a, b in zip(whole, data, strict=True) if a != b)
        assert bit.bit_count() == 1
        try:
            with zipfile.ZipFile(io.BytesIO(changed_zip(whole, Random(seed), bytes))) as archive:
                wrong += archive.testzip() is not None
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError):
            wrong += 1
    assert wrong > 5


def test_headers_are_changed_and_can_still_be_found() -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.arange(7.0))
    text = json.dumps(
        {"__metadata__": {"a": "{}"}, "w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    )
    tensors = struct.pack("<Q", len(text)) + text.encode() + bytes(8)
    for seed in range(50):
        data = changed_npy(buffer.getvalue(), Random(seed))
        (length,) = struct.unpack("<H", data[8:10])
        assert data[10 + length - 1 : 10 + length] == b"\n"
        data = changed_safetensors(tensors, Random(seed))
        (length,) = struct.unpack("<Q", data[:8])
        assert len(data) >= 8 + length


def test_odd_names_and_values_are_of_many_kinds() -> None:
    texts = {odd_text(Random(seed)) for seed in range(500)}
    for part in ("/", "\\", "..", "\0", "\n", "\ud800", "\u202e"):
        assert any(part in text for text in texts)
    assert len({type(odd_value(Random(seed))) for seed in range(300)}) >= 7
