"""A classifier finds the encoder that lies near it, from any working directory."""

from pathlib import Path

import pytest

from fewset import FewShotClassifier
from fewset.classify.embedding import chosen_encoder, name_from_file, name_in_file
from tests.helpers.classifiers import fitted, new_photos
from tests.helpers.command_line import fail, succeed
from tests.helpers.encoders import write_onnx


def test_from_any_directory_and_moved_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first / "made", tmp_path / "elsewhere"):
        folder.mkdir(parents=True)
    monkeypatch.chdir(first)
    write_onnx(first / "net.onnx")
    made = fitted(first, "onnx:net.onnx")
    made.save("made/my.fewset")
    expected = made.predict_proba(new_photos())
    first.rename(second)
    monkeypatch.chdir(tmp_path / "elsewhere")
    loaded = FewShotClassifier.load(second / "made" / "my.fewset", device="cpu")
    assert loaded.encoder == "onnx:../second/net.onnx"
    assert (loaded.predict_proba(new_photos()) == expected).all()


def test_what_is_gone_is_an_error_that_says_how_to_go_on(tmp_path: Path) -> None:
    path, net = tmp_path / "my.fewset", write_onnx(tmp_path / "net.onnx")
    fitted(tmp_path, f"onnx:{net}").save(path)
    net.rename(tmp_path / "moved.onnx")
    Path(f"{net}.json").rename(tmp_path / "moved.onnx.json")
    for words in (("predict", path, tmp_path), ("export", path, "-o", tmp_path / "out"), ("serve", path)):
        refused = fail(*words)
        assert "say where: --encoder" in refused
        assert "\n" not in refused
    succeed("export", path, "-o", tmp_path / "out", "--encoder", f"onnx:{tmp_path / 'moved.onnx'}")


def test_an_encoder_that_has_changed_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, folder in enumerate((tmp_path / "first", tmp_path / "second")):
        folder.mkdir()
        write_onnx(folder / "net.onnx", batch=f"B{number}")
    monkeypatch.chdir(tmp_path / "first")
    digests = [chosen_encoder("onnx:net.onnx").digest]
    assert chosen_encoder("onnx:net.onnx") is chosen_encoder("onnx:net.onnx")
    monkeypatch.chdir(tmp_path / "second")
    digests.append(chosen_encoder("onnx:net.onnx").digest)
    write_onnx(tmp_path / "second" / "net.onnx", batch="other")
    digests.append(chosen_encoder("onnx:net.onnx").digest)
    assert len(set(digests)) == 3


def test_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here, and from a file one folder above."""
    here = tmp_path / "here"
    (here / "efficientnet-lite0").mkdir(parents=True)
    (here / "runs" / "feat").mkdir(parents=True)
    (tmp_path / "efficientnet-lite0").mkdir()
    monkeypatch.chdir(here)
    for name, in_file in {
        "./runs/feat": "here/runs/feat",
        "hf:runs/feat": "hf:here/runs/feat",
        "../efficientnet-lite0": "./efficientnet-lite0",
        "efficientnet-lite0": "efficientnet-lite0",  # a name, although there are such directories
        "onnx:absent.onnx": "onnx:absent.onnx",
        "hf:~/model": "hf:~/model",
    }.items():
        assert name_in_file(name, tmp_path) == in_file
        assert name_from_file(in_file, tmp_path) in (name, name.removeprefix("./"))
    for damaged in ("onnx:\0", "onnx:", "a/" * 9999, ""):
        assert name_from_file(damaged, tmp_path) == damaged
