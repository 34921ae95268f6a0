"""What all commands have in common: help, exit codes, one line for each error, warning and interruption."""

import errno
import json
import re
import subprocess
import sys
import warnings
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from typer.main import get_command

from fewset.cli import app as cli
from fewset.core.errors import UserError
from tests.helpers.command_line import PRETRAIN, TRAIN, fail, fewset_in_a_new_process, options, succeed
from tests.helpers.results import MakeRun


def every_command() -> list[list[str]]:
    """The words of each command: of the top, and of the groups such as `data`."""
    found = []
    for name, command in get_command(cli.app).commands.items():
        found += [[name, part] for part in getattr(command, "commands", {})] or [[name]]
    return found


def options_of(words: list[str]) -> set[str]:
    command = get_command(cli.app)
    for word in words:
        command = command.commands[word]
    return {option for parameter in command.params for option in parameter.opts}


# Help


@pytest.mark.parametrize("command", every_command(), ids=" ".join)
def test_help_has_an_example(command: list[str]) -> None:
    output = re.sub(r"\s+", " ", succeed(*command, "--help"))
    assert f"Example: fewset {' '.join(command)}" in output


def test_the_panels_of_the_help_stand_in_their_order() -> None:
    output = succeed("--help")
    panels = re.findall(r"─ (\w+) ─", output)
    assert panels == ["Options", *(panel for panel in cli._PANELS if panel in panels)]
    places = [output.index(f"│ {name} ") for name in ("demo", "pretrain", "eval", "report", "data", "bench")]
    assert places == sorted(places)


NEW_COMMAND = """
import typer

PANEL = "Data"
commands = typer.Typer()

@commands.command()
def greet(name: str) -> None:
    "Say hello."
    print(f"hello {name}")
"""
WITH_IT = """
import sys
import fewset.cli
fewset.cli.__path__.append(sys.argv.pop(1))
from fewset.cli.app import main
main()
"""


def test_a_new_command_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "greetings.py").write_text(NEW_COMMAND)
    for words, expected in (
        (["greet", "all"], "hello all"),
        (["--help"], r"Data ─+╮\n.* data .*\n.* greet "),
    ):
        command = [sys.executable, "-c", WITH_IT, str(tmp_path), *words]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert re.search(expected, output), output


def test_a_missing_library_is_one_line_that_names_the_extra() -> None:
    program = "import sys; sys.modules['matplotlib'] = None; from fewset.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "paper"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert re.fullmatch(r"error: matplotlib.* is not installed .*'fewset\[report\]'\n", done.stderr)


def test_version() -> None:
    assert re.match(r"fewset \d+\.\d+\.\d+", succeed("--version"))


# Where, and with what, commands compute

MODEL = "omniglot-feat-1shot"
COMPUTE = [
    ["demo"],
    ["fit", ".", "-o", "a.fewset"],
    ["predict", "a.fewset", "."],
    ["suggest", "a.fewset", "."],
    ["score", "a.fewset", "."],
    ["add", "a.fewset", "."],
    ["remove", "a.fewset", "owl"],
    ["rename", "a.fewset", "owl", "barn owl"],
    ["pretrain", "strokes/pretrain", *options(PRETRAIN)],
    ["train", "strokes/feat", *options([*TRAIN, "train.init="])],
    ["eval", MODEL],
    ["embed", MODEL, "--out", "a.npz"],
    ["paper", "transductive", *options(PRETRAIN)],
    ["ablate", "heads", *options(PRETRAIN)],
    ["data", "relate", "tiny"],
]
LOAD = [["params"], ["data", "import", "folder", "."], ["export", "a.fewset", "-o", "a.onnx"]]
# These only show or copy files.
APART = ["info", "compare", "report", "results", "recipes", "weights", "import-weights"]
APART += ["data list", "data info", "data verify"]


def called(words: list[str]) -> str:
    return " ".join(words[:2]) if words[0] == "data" else words[0]


def test_every_command_that_computes_takes_a_device_and_plugins() -> None:
    for command in every_command():
        if " ".join(command) not in APART:
            assert "--plugin" in options_of(command), command
            if " ".join(command) not in map(called, LOAD):
                assert "--device" in options_of(command), command


MAKES_A_SET = "demo", "paper", "ablate"


@pytest.mark.usefixtures("tiny_set")
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, marks=[pytest.mark.slow] if words[0] in MAKES_A_SET else [])
        for words in [*COMPUTE, ["bench", "train", "--data", "tiny"]]
    ],
    ids=called,
)
def test_the_device_is_not_ignored(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "--device cuda:99 needs GPU 99" in fail(*words, "--device", "cuda:99")
    assert "expected cpu, cuda" in fail(*words, "--device", "gpu")


@pytest.mark.parametrize("words", [*COMPUTE, *LOAD], ids=called)
def test_plugins_are_not_ignored(words: list[str]) -> None:
    assert "there is no plugin file absent.py" in fail(*words, "--plugin", "absent.py")


def test_plugins_may_be_named_in_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [tmp_path / "one.py", tmp_path / "two.py"]
    for file in files:
        file.write_text(
            "from fewset.models.adapters import register_adapter\n"
            "from fewset.models.adapters.identity import Identity\n"
            f"register_adapter('{file.stem}')(type('{file.stem}', (Identity,), {{}}))\n"
        )
    monkeypatch.setenv("FEWSET_PLUGINS", ":".join(map(str, files)))
    output = succeed("params")
    assert all(re.search(rf"│ {file.stem} +│ 0 ", output) for file in files)


TUNED = """
import json, sys
from typer.testing import CliRunner
from fewset.compute import machine

class Tuned(Exception):
    pass

def tune(with_torch=True):
    raise Tuned("torch" in sys.modules)

machine.tune = tune
from fewset.cli.app import app
for words in json.loads(sys.argv[1]):
    result = CliRunner().invoke(app, words)
    assert repr(result.exception) == "Tuned(False)", (words, result.exception, result.output)
"""


def test_the_process_is_tuned_before_torch_is_imported() -> None:
    """How long OpenMP's threads spin, for example, is read when torch is imported."""
    command = [sys.executable, "-c", TUNED, json.dumps([*COMPUTE, ["params"]])]
    subprocess.run(command, check=True)


# How commands end


def end(*words: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of the program."""
    monkeypatch.setattr("sys.argv", ["fewset", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


@pytest.mark.usefixtures("tiny_set")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["train", "strokes/fat"], "unknown recipe"),
        (["train", "strokes/feat", "--set", "train.epoch=1"], "unknown recipe key"),
        (["train", "strokes/pretrain"], "use `fewset pretrain`"),
        (["train", "strokes/feat", "strokes/protonet", "--out", "one"], "2 recipes, but 1 run directories"),
        (["eval", "absent"], "unknown run directory, weights file or released model 'absent'"),
        (["compare", "one"], "two or more runs"),
        (["data", "info", "absent"], "unknown image set"),
        (["data", "import", "folders", "absent"], "unknown kind"),
        (["nonsense"], "No such command"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_user_errors_name_the_mistake(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in fail(*words)
    assert not (tmp_path / "runs").exists()


def test_a_user_error_is_one_line_and_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever characters are in a name."""
    assert end("data", "info", "[absent]", monkeypatch=monkeypatch) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert "[absent]" in error
    monkeypatch.setattr("fewset.report.page.build_report", raising(UserError("a\nb\r\x1b[31m\x0bc \ud800")))
    assert end("report", "a run", monkeypatch=monkeypatch) == 2
    assert capsys.readouterr().err == "error: a b ?[31m c ?\n"


def raising(error: BaseException) -> object:
    def call(*_: object, **__: object) -> None:
        raise error

    return call


def test_ctrl_c_is_one_line_and_exit_code_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fewset.report.page.build_report", raising(KeyboardInterrupt()))
    assert end("report", "a run", monkeypatch=monkeypatch) == 130
    assert capsys.readouterr() == ("", "stopped\n")


def test_ctrl_c_while_the_command_line_is_loaded_is_one_line_too(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")
    ended = fewset_in_a_new_process("--version", beside=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "stopped\n")


def test_a_working_directory_that_is_gone_is_one_line(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    leave = f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r})"
    program = f"{leave}; from fewset.__main__ import main; main()"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert "the working directory is gone" in ended.stderr


def test_an_error_of_the_system_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "report.html")
    monkeypatch.setattr("fewset.report.page.build_report", raising(full))
    assert end("report", "a run", monkeypatch=monkeypatch) == 2
    message = capsys.readouterr().err
    assert message.startswith("error: report.html: No space left on device; ")
    assert message.count("\n") == 1


@pytest.mark.parametrize("error", [RuntimeError("odd"), OSError("odd"), OSError(errno.EINVAL, "odd", "file")])
def test_a_defect_keeps_its_traceback_and_asks_for_a_report(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fewset.report.page.build_report", raising(error))
    assert end("report", "a run", monkeypatch=monkeypatch) == 1
    *trace, last = capsys.readouterr().err.splitlines()
    assert trace[0].startswith("Traceback")
    assert "odd" in trace[-1]
    assert last.endswith("please report it to its issue tracker, with the command and the text above")


def test_a_warning_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def warn(*_: object) -> str:
        warnings.warn("train.turned is now called\n  train.[rotation_classes]", FutureWarning, stacklevel=2)
        return "page"

    monkeypatch.setattr("fewset.report.page.build_report", warn)
    usual = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert end("report", "a run", monkeypatch=monkeypatch) == 0
    printed = capsys.readouterr()
    assert printed.err == "warning: train.turned is now called train.[rotation_classes]\n"
    assert printed.out == "report: page\n"
    assert warnings.showwarning is usual


def test_a_terminal_that_takes_ascii_only(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = [TextIOWrapper(BytesIO(), encoding="ascii", write_through=True) for _ in range(2)]
    for name, stream in zip(("stdout", "stderr"), streams, strict=True):
        monkeypatch.setattr(sys, name, stream)
    other = str(make_run("other"))
    for run, code in ((make_run("feat"), None), ("schön", 2)):
        monkeypatch.setattr(sys, "argv", ["fewset", "compare", str(run), other])
        with pytest.raises(SystemExit) as ending:
            cli.main()
        assert (ending.value.code or None) == code
    out, err = (stream.buffer.getvalue() for stream in streams)  # type: ignore[attr-defined]
    assert b" ? " in out  # where there is a plus-minus sign
    assert b"sch?n" in err
