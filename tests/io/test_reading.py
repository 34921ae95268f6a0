"""Damaged files: one exception with path and reason, to which the public edge adds the remedy."""

import os
import pickle
from pathlib import Path

import pytest

from fewset.core.errors import UserError
from fewset.io.reading import (
    Damaged,
    parse_json,
    parse_toml,
    parsing,
    read_bytes,
    read_json,
    read_text,
    remedy,
)


def test_the_remedy_is_added_once_to_whatever_a_parser_raises(tmp_path: Path) -> None:
    for error in (KeyError("a"), RuntimeError("two\nlines"), ValueError("bad"), OSError("no errno")):
        with (
            pytest.raises(UserError, match=r"file cannot be read \(.*\); get it again$") as caught,
            remedy("get it again"),
            parsing(tmp_path / "file"),
        ):
            raise error
        assert str(caught.value).isprintable()


def test_errors_of_the_system_and_of_users_stay_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), remedy("get it again"):
        read_json(tmp_path / "absent")
    with pytest.raises(UserError, match="as it was"), parsing(tmp_path):
        raise UserError("as it was")


def test_damage_is_said_by_one_process_to_the_others() -> None:
    error = pickle.loads(pickle.dumps(Damaged(Path("a"), "is empty")))  # noqa: S301 - our own
    assert (error.path, error.reason, str(error)) == (Path("a"), "is empty", "a is empty")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for read in (read_text, read_json):
        with pytest.raises(Damaged, match="is not a regular file"):
            read(tmp_path / "pipe")


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "seven").write_bytes(b"1234567")
    assert read_bytes(tmp_path / "seven", 7) == b"1234567"
    with pytest.raises(Damaged, match="7 bytes, more than the limit of 6"):
        read_bytes(tmp_path / "seven", 6)


def test_deep_nesting_large_numbers_and_other_encodings_are_damage(tmp_path: Path) -> None:
    deep = "[" * 100_000
    for parse, text in ((parse_json, deep), (parse_toml, f"a = {deep}")):
        with pytest.raises(ValueError, match="nests too deeply"):
            parse(text)
    assert parse_json("[" * 100 + "]" * 100)
    with pytest.raises(ValueError, match="nests too deeply"):  # it could be read, but not written again
        parse_json("[" * 300 + "]" * 300)
    for digits in ("9" * 309, "-1" + "0" * 400):
        for parse, text in ((parse_json, f'[{{"a": {digits}}}]'), (parse_toml, f"[a]\nb = [{digits}]")):
            with pytest.raises(ValueError, match="too large"):
                parse(text)
    (tmp_path / "latin").write_bytes(b'"\xff"')
    with pytest.raises(Damaged, match="decode"):
        read_json(tmp_path / "latin")
