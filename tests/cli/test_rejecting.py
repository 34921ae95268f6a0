"""`--reject [SHARE]`: with a value, without one, and stored by `fit`."""

from pathlib import Path

import pytest
from PIL import Image

from fewset.classify.classifier import FewShotClassifier
from fewset.cli.rejecting import with_usual_share
from fewset.encoders import register_encoder
from tests.helpers.command_line import fail, succeed
from tests.helpers.photos import TinyEncoder, write_photos


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["a", "--reject"], ["a", "--reject", "auto"]),
        (["--reject", "a", "b"], ["--reject", "auto", "a", "b"]),
        (["--reject", "0.1", "a"], ["--reject", "0.1", "a"]),
        (["--reject=0.1", "a"], ["--reject=0.1", "a"]),
        (["--reject", "--", "--reject"], ["--reject", "auto", "--", "--reject"]),
        (["--no-reject", "a"], ["--no-reject", "a"]),
    ],
)
def test_a_share_may_be_left_out(words: list[str], expected: list[str]) -> None:
    assert with_usual_share(words) == expected


def test_fit_stores_the_share_and_predict_follows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    register_encoder("tiny")(lambda _: TinyEncoder())
    photos = write_photos(Path("photos"))
    Image.new("RGB", (40, 32), "magenta").save("strange.png")
    succeed("fit", photos, "-o", "my.fewset", "--encoder", "tiny", "--reject", "0.1")
    assert FewShotClassifier.load("my.fewset", encoder=TinyEncoder()).reject == 0.1
    for words in ((), ("--reject",), ("--reject", "0.01")):
        line = succeed("predict", "my.fewset", "strange.png", *words)
        assert line.startswith("strange.png: none of these, nearest "), "no probability of a class beside it"
        assert "%" not in line
    assert "none of these" not in succeed("predict", "my.fewset", "strange.png", "--no-reject")
    assert "expected a share between 0 and 1" in fail("predict", "my.fewset", "strange.png", "--reject", "5")
    assert "not both" in fail("predict", "my.fewset", "strange.png", "--reject", "--no-reject")
