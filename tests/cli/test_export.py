"""`fewset export` as a user types it: what it writes and refuses, and the guide's example without torch."""

import json
import subprocess
import sys
from math import isnan
from pathlib import Path

import onnxruntime
import pytest

from tests.helpers.classifiers import fitted, new_photos
from tests.helpers.command_line import fail, succeed
from tests.helpers.encoders import write_onnx

ROOT = Path(__file__).parents[2]
RUNTIME = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    """The file of a classifier."""
    path = tmp_path / "my.fewset"
    fitted(tmp_path, f"onnx:{write_onnx(tmp_path / 'net.onnx')}").save(path)
    return path


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where npm would put onnxruntime-web; the working directory is below it."""
    place = tmp_path / "node_modules" / "onnxruntime-web" / "dist"
    place.mkdir(parents=True)
    for name in RUNTIME:
        (place / name).write_text(name)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    return place


def left(folder: Path) -> list[str]:
    """What is in a folder, the unfinished included."""
    return sorted(path.name for path in folder.iterdir())


def test_a_name_that_ends_in_onnx_is_the_whole(classifier: Path, tmp_path: Path) -> None:
    out = tmp_path / "my.onnx"
    assert succeed("export", classifier, "-o", out) == f"ONNX: {out}\n"
    session = onnxruntime.InferenceSession(out)
    assert [each.name for each in session.get_outputs()] == ["probabilities", "closeness", "nearest"]


def test_any_other_name_is_a_folder_with_the_parts(classifier: Path, tmp_path: Path) -> None:
    succeed("export", classifier, "-o", tmp_path / "out")
    assert left(tmp_path / "out") == ["encoder.onnx", "head.json"]
    succeed("export", classifier, "-o", tmp_path / "out", "--joined", "--force")
    assert left(tmp_path / "out") == ["encoder.onnx", "head.json", "joined.onnx"]


def test_the_page_is_complete(classifier: Path, runtime: Path, tmp_path: Path) -> None:
    """All that the files of the page name is there, the runtime where npm has put it."""
    assert f"--directory {tmp_path / 'site'}" in succeed("export", classifier, "--web", tmp_path / "site")
    site = {path.name: path for path in (tmp_path / "site").iterdir()}
    assert {"index.html", "head.json", "encoder.onnx", *RUNTIME} <= set(site)
    text = "".join(path.read_text() for name, path in site.items() if name.endswith((".html", ".js")))
    for name in (
        "camera.js",
        "classify.js",
        "classify.css",
        "page.css",
        "icon.svg",
        "dom.js",
        "resampling.js",
        "store.js",
    ):
        assert name in text
        assert name in site
    assert not {name for name in site if name.endswith(".py")}
    words = ("--web", tmp_path / "other", "--runtime", runtime, "--title", "Cod <& co>")
    succeed("export", classifier, *words)
    page = (tmp_path / "other" / "index.html").read_text()
    assert page.count("Cod &lt;&amp; co&gt;") == 2
    assert "What is in this photo" not in page


@pytest.mark.slow
def test_the_share_of_rejection_is_chosen(tmp_path: Path) -> None:
    classifier, thresholds = tmp_path / "my.fewset", []
    fitted(tmp_path, "efficientnet-lite0", reject=None).save(classifier)
    for share in ("0.05", "0.4"):
        succeed("export", classifier, "-o", tmp_path / share, "--reject", share)
        about = json.loads((tmp_path / share / "head.json").read_text())
        assert about["reject"]
        thresholds.append(about["threshold"])
    assert thresholds[0] < thresholds[1]
    succeed("export", classifier, "-o", tmp_path / "usual", "--reject")
    about = json.loads((tmp_path / "usual" / "head.json").read_text())
    assert (about["reject"], about["threshold"]) == (True, thresholds[0])
    succeed("export", classifier, "-o", tmp_path / "stored")
    assert not json.loads((tmp_path / "stored" / "head.json").read_text())["reject"]
    refused = fail("export", classifier, "-o", tmp_path / "out", "--reject", "2")
    assert "expected a share between 0 and 1" in refused


@pytest.mark.slow
def test_a_model_is_exported_too(tmp_path: Path) -> None:
    succeed("export", "omniglot-feat-1shot", "-o", tmp_path / "parts")
    assert left(tmp_path / "parts") == ["encoder.onnx", "head.onnx"]
    session = onnxruntime.InferenceSession(tmp_path / "parts" / "head.onnx")
    assert [(each.name, each.shape[:-1]) for each in session.get_inputs()] == [
        ("support", ["N", "K"]),
        ("query", ["M"]),
    ]


def test_wrong_options(classifier: Path, tmp_path: Path) -> None:
    for words, reason in {
        (): "nothing to write",
        ("-o", "site", "--web", "./site"): "-o and --web are both site; choose two places",
        ("--joined", "--web", "site"): "--joined needs -o",
        ("-o", "a.onnx", "--runtime", "."): "--runtime is for the page; give --web DIR",
        ("-o", "a.onnx", "--title", "Fruit"): "--title is the text above the page, which --web DIR writes",
        ("-o", tmp_path / "absent" / "a.onnx"): "there is no directory",
        ("-o", tmp_path / "out", "--encoder", "efficientnet-lite0"): "is another",
        ("--web", tmp_path / "site", "--runtime", tmp_path): "npm install onnxruntime-web",
    }.items():
        assert reason in fail("export", classifier, *words)
    assert not {path.name for path in tmp_path.iterdir()} & {"a.onnx", "out", "site"}


def test_a_model_makes_no_page(runtime: Path, tmp_path: Path) -> None:
    refused = fail("export", "omniglot-feat-1shot", "--web", tmp_path / "site", "--runtime", runtime)
    assert (
        "omniglot-feat-1shot is a model; --web, --hub, --encoder and --reject are for classifiers" in refused
    )
    assert not (tmp_path / "site").exists()


def test_what_is_there_is_not_overwritten(classifier: Path, tmp_path: Path) -> None:
    out, folder = tmp_path / "my.onnx", tmp_path / "folder"
    out.write_text("mine")
    folder.mkdir()
    (folder / "letter.txt").write_text("mine")
    for path in (out, folder):
        assert f"{path} exists" in fail("export", classifier, "-o", path)
    assert "has letter.txt in it" in fail("export", classifier, "-o", folder, "--force")
    assert (out.read_text(), left(folder)) == ("mine", ["letter.txt"])
    succeed("export", classifier, "-o", out, "--force")
    assert out.stat().st_size > 1000


def test_the_working_directory_and_links_are_not_replaced(
    classifier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert "the working directory is in ., which would be replaced" in fail("export", classifier, "-o", ".")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("nowhere")
    refused = fail("export", classifier, "-o", tmp_path / "link", "--force")
    assert "is a link, which cannot be replaced; choose another name" in refused


def test_what_is_read_is_not_replaced(classifier: Path, tmp_path: Path) -> None:
    network, folder = tmp_path / "net.onnx", tmp_path / "folder"
    before = network.read_bytes()
    assert "net.onnx is read and cannot be written" in fail("export", classifier, "-o", network, "--force")
    assert network.read_bytes() == before
    succeed("export", classifier, "-o", folder)
    own = classifier.rename(folder / "my.fewset")
    refused = fail("export", own, "-o", folder, "--force", "--encoder", f"onnx:{network}")
    assert f"my.fewset is in {folder}, which would be replaced" in refused


def test_other_files_are_errors(tmp_path: Path) -> None:
    (tmp_path / "letter.fewset").write_text("dear reader")
    for name, reason in (("letter", "is not a usable classifier"), ("absent", "there is no file")):
        assert reason in fail("export", tmp_path / f"{name}.fewset", "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has the libraries of the example, and no torch: links to those of this one."""
    folder = tmp_path_factory.mktemp("bare")
    libraries = folder / "libraries"
    libraries.mkdir()
    for module in ("numpy", "onnxruntime", "PIL"):
        package = Path(__import__(module).__file__ or "").parent
        for found in (package, *package.parent.glob(f"{'pillow' if module == 'PIL' else module}.libs")):
            (libraries / found.name).symlink_to(found)
    return libraries


def test_the_example_classifies_without_torch(tmp_path: Path, bare_python: Path) -> None:
    """The guide's 30 lines, in a Python where torch and fewset are not installed."""
    example = ROOT / "docs" / "examples" / "classify_photos.py"
    assert len([line for line in example.read_text().splitlines() if line]) <= 30
    classifier = fitted(tmp_path, "efficientnet-lite0")
    classifier.save(tmp_path / "my.fewset")
    succeed("export", tmp_path / "my.fewset", "-o", tmp_path / "my.onnx")
    photos = [tmp_path / f"{number}.png" for number in range(4)]
    for image, path in zip(new_photos(), photos, strict=True):
        image.resize((500, 400)).save(path)

    def alone(*words: object) -> subprocess.CompletedProcess[str]:
        program = f"import sys; sys.path.append({str(bare_python)!r})\n{words[0]}"
        return subprocess.run(
            [sys.executable, "-I", "-S", "-c", program, *map(str, words[1:])],
            capture_output=True,
            text=True,
            check=False,
        )

    for module in ("torch", "fewset", "onnx"):
        assert "ModuleNotFoundError" in alone(f"import {module}").stderr
    answer = alone(example.read_text(), tmp_path / "my.onnx", *photos)
    assert answer.returncode == 0, answer.stderr
    answers = list(classifier.answers([str(path) for path in photos]))
    sure = ["" if isnan(given.probability) else f" ({given.probability:.4f})" for given in answers]
    expected = [f"{given.name}: {given.label}{share}" for given, share in zip(answers, sure, strict=True)]
    assert answer.stdout.splitlines() == expected
    assert [given.label for given in answers].count("none of these") == 1
