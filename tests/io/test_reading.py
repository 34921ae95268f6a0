import os
from pathlib import Path

import pytest

from fewset.io.reading import parse_json, parse_toml, read_bytes, read_json, read_text, regular_file


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for read in (read_text, read_json):
        with pytest.raises(OSError, match="is not a regular file"):
            read(tmp_path / "pipe")
    assert regular_file(tmp_path / "absent") == tmp_path / "absent"
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "absent")


def test_no_more_than_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "seven").write_bytes(b"1234567")
    assert read_bytes(tmp_path / "seven", 7) == b"1234567"
    with pytest.raises(OSError, match="file of 7 bytes, more than the limit of 6"):
        read_bytes(tmp_path / "seven", 6)


def test_what_nests_too_deeply_is_an_error_like_others(tmp_path: Path) -> None:
    deep = "[" * 100_000
    for parse, text in ((parse_json, deep), (parse_toml, f"a = {deep}")):
        with pytest.raises(ValueError, match="nests too deeply"):
            parse(text)
    assert parse_json("[" * 100 + "]" * 100)
    with pytest.raises(ValueError, match="nests too deeply"):  # it could be read, but not written again
        parse_json("[" * 300 + "]" * 300)
    (tmp_path / "latin").write_bytes(b'"\xff"')
    with pytest.raises(ValueError, match="decode"):
        read_json(tmp_path / "latin")


@pytest.mark.parametrize("digits", ["9" * 309, "-1" + "0" * 400])
def test_a_number_that_no_float_holds_is_an_error_like_others(digits: str) -> None:
    for parse, text in ((parse_json, f'[{{"a": {digits}}}]'), (parse_toml, f"[a]\nb = [{digits}]")):
        with pytest.raises(ValueError, match="number that is too large"):
            parse(text)
