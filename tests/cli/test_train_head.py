"""train-head writes scalars that the head reads; measure-gain measures one split by another."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewset.classify.heads.equivariant import Scalars
from fewset.experiments import run_encoder
from fewset.runtime.parsing import parse
from tests.helpers.backgrounds import domain_rows
from tests.helpers.command_line import fail, succeed
from tests.helpers.measured import write_many_classes
from tests.helpers.photos import TinyEncoder


def test_from_tables_to_scalars(tmp_path: Path) -> None:
    features, labels = domain_rows(0, classes=7, shots=8)
    np.savez(tmp_path / "birds.npz", features=features, labels=labels)
    out = tmp_path / "scalars.json"
    said = succeed("train-head", tmp_path / "birds.npz", "-o", out, "--seed", 3, "--steps", 10)
    assert "step 10: " in said
    record = json.loads(out.read_text())
    assert (record["seed"], record["steps"]) == (3, 10)
    assert parse(Scalars, record["scalars"]) != Scalars()
    assert "cannot be read" in fail("train-head", tmp_path / "none.npz", "-o", out)
    table = tmp_path / "birds.npz"
    assert "birds.npz is read and cannot be written" in fail("train-head", table, "-o", table)


def test_from_photos_to_a_table_and_to_scalars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_encoder, "load_encoder", lambda *_: TinyEncoder())
    photos = write_many_classes(tmp_path / "photos" / "train", 6, 9).parent
    plain, drawn, scalars = (tmp_path / name for name in ("plain.npz", "drawn.npz", "scalars.json"))
    words = ("head-table", "folder", photos, "--split", "train", "--most", 7)
    assert "plain.npz: 42 rows of" in succeed(*words, "-o", plain)
    succeed(*words, "--drawn", "-o", drawn)
    tables = [np.load(file) for file in (plain, drawn)]
    assert all(table["labels"].tolist() == np.repeat(np.arange(6), 7).tolist() for table in tables)
    assert (tables[0]["features"] != tables[1]["features"]).any()
    first = plain.read_bytes()
    succeed(*words, "-o", plain)
    assert plain.read_bytes() == first
    succeed("train-head", plain, drawn, "-o", scalars, "--steps", 1)
    assert list(json.loads(scalars.read_text())["tables"]) == ["plain.npz", "drawn.npz"]
    assert "photos is read and cannot be written" in fail(*words, "-o", photos)
    assert "'x'" in fail("head-table", "folder", photos, "--split", "x", "-o", plain)


def test_what_is_read_is_not_replaced_by_what_a_background_gains(tmp_path: Path) -> None:
    source, photo = tmp_path / "photos.zip", tmp_path / "0.png"
    source.touch()
    assert "photos.zip is read" in fail("measure-gain", "folder", source, "-o", source)
    assert "0.png has the name of a photo" in fail("measure-gain", "folder", source, "-o", photo)


def test_what_a_background_gains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def tiny(name: str, device: str) -> Any:
        assert (name, device) == ("other", "cpu")
        return TinyEncoder()

    monkeypatch.setattr(run_encoder, "load_encoder", tiny)
    write_many_classes(tmp_path / "photos" / "val", 20, 10)
    write_many_classes(tmp_path / "photos" / "test", 6, 7)
    out = tmp_path / "gain.json"
    words = ["--background", "val", "--encoder", "other", "--device", "cpu", "--tasks", 3, "--seed", 2]
    said = succeed("measure-gain", "folder", tmp_path / "photos", "-o", out, *words)
    assert "6-way 1-shot" in said
    record = json.loads(out.read_text())
    assert (record["background"]["split"], record["seed"]) == ("val", 2)
