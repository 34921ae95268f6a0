"""The examples of docs/scale.md, on engines where they are installed (`pip install 'ray[data]'`)."""

import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.helpers.command_line import fewset_in_a_new_process
from tests.helpers.guides import example
from tests.helpers.photos import write_photos
from tests.helpers.processes import LIMIT, limited

GUIDE = "docs/scale.md"
PHOTOS = 2000

# An actor that dies with its third batch, once.
DYING = """
import os, signal
from pathlib import Path
class Dying(fewset.Predictor):
    def __init__(self, file, **options):
        super().__init__(file, **options)
        self.batches = 0
    def __call__(self, batch):
        self.batches += 1
        marker = Path({marker!r})
        if self.batches == 3 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(batch)
"""
BEGIN = """
import os
os.environ |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
import ray
import fewset
ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=2**28)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,000 photos, one of them broken, and a classifier."""
    place = tmp_path_factory.mktemp("engines")
    write_photos(place / "labelled", 4)
    done = fewset_in_a_new_process("fit", place / "labelled", "-o", place / "birds.fewset")
    assert done.returncode == 0, done.stderr
    generator = np.random.default_rng(0)
    (place / "photos").mkdir()
    for number in range(PHOTOS - 1):
        pixels = generator.integers(0, 255, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((64, 48)).save(place / "photos" / f"{number:04}.jpg")
    (place / "photos" / "broken.jpg").write_bytes(b"nonsense")
    return place


@pytest.fixture(scope="module")
def expected(place: Path) -> dict[str, dict[str, str]]:
    """The answers of `fewset predict`."""
    done = fewset_in_a_new_process(
        "predict", place / "birds.fewset", place / "photos", "--csv", place / "a.csv"
    )
    assert done.returncode == 0, done.stderr
    with (place / "a.csv").open() as file:
        return {row["file"]: row for row in csv.DictReader(file)}


def check(found: list[dict[str, Any]], expected: dict[str, dict[str, str]]) -> None:
    assert sorted(row["path"] for row in found) == sorted(expected)
    for row in found:
        other = expected[row["path"]]
        assert (row["class"] or "", row["nearest"] or "") == (other["class"], other["nearest"])
        assert bool(row["problem"]) == bool(other["problem"])
        if not row["problem"]:  # other photos are in a batch with it, and the table has four digits
            assert row["probability"] == pytest.approx(float(other["probability"]), abs=1e-4)
            assert row["closeness"] == pytest.approx(float(other["closeness"]), abs=1e-4)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("dies", [False, True])
def test_ray_gives_the_answers_of_predict(
    dies: bool, place: Path, expected: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    """With two actors, of which one is killed: nothing is lost."""
    pytest.importorskip("ray", reason="ray is not installed: pip install 'ray[data]'")
    parquet = pytest.importorskip("pyarrow.parquet")
    text = example(GUIDE, "ray.data")
    for old, new in [
        ("/shared/", f"{place}/"),
        ("photos/", f"{place}/photos/"),
        ("answers/", f"{tmp_path}/out"),
    ]:
        text = text.replace(f'"{old}', f'"{new}')
    marker = tmp_path / "died"
    if dies:
        text = DYING.format(marker=str(marker)) + text.replace("fewset.Predictor,", "Dying,")
    (tmp_path / "script.py").write_text(BEGIN + text)
    with limited([sys.executable, tmp_path / "script.py"]) as process:
        _, told = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, told
    assert marker.exists() == dies
    check(parquet.read_table(tmp_path / "out").to_pylist(), expected)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["mapInPandas", "map_partitions"])
def test_functions_for_frames(engine: str, place: Path, expected: dict[str, dict[str, str]]) -> None:
    """What Spark and Dask call, called as they do, without them."""
    pd = pytest.importorskip("pandas")
    names: dict[str, Any] = {}
    exec(example(GUIDE, engine).replace("/shared/", f"{place}/"), names)
    paths = sorted(expected)[-100:]
    frames = [pd.DataFrame({"path": part}) for part in (paths[:64], paths[64:])]
    if engine == "mapInPandas":
        contents = [
            frame.assign(content=[Path(path).read_bytes() for path in frame.path]) for frame in frames
        ]
        found = pd.concat(list(names["answers_of"](iter(contents))))
        assert list(found.columns) == [column.split()[0] for column in names["schema"].split(",")]
    else:
        found = pd.concat(map(names["answers_of"], frames))
        assert list(names["answers_of"](frames[0][:0]).columns) == list(found.columns)
    check(found.replace({np.nan: None}).to_dict("records"), {path: expected[path] for path in paths})
