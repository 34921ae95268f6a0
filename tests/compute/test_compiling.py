import subprocess
import sys

import numba
import numpy as np
import pytest
from numba.core import caching

from fewset.compute.compiling import compiled, pays


def test_only_many_tasks_are_worth_loading_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pays(10_000)
    assert not pays(9_999)
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert not pays(10_000)


def test_without_the_extra_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)  # then its import fails
    assert not pays(10_000)


def test_few_tasks_do_not_import_the_compiler() -> None:
    program = (
        "import sys, numpy, fewset\n"
        "from fewset.evaluation.scoring import evaluate\n"
        "model = fewset.load('miniimagenet-conv4-protonet-1shot')\n"
        "labels = numpy.repeat(numpy.arange(5), 20)\n"
        "evaluate(model, numpy.eye(5, 64)[labels], labels, fewset.TaskSpec(tasks=100))\n"
        "sys.exit('numba' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def total(numbers: np.ndarray) -> int:
    result = 0
    for number in numbers:
        result += number
    return result


def test_a_loop_is_compiled_for_its_types() -> None:
    made = compiled("int64(int64[::1])")(total)
    assert made(np.arange(11)) == 55
    with pytest.raises(TypeError):
        made(np.arange(11.0))


@pytest.mark.parametrize("error", [RuntimeError("no locator available"), OSError(28, "No space left")])
def test_what_cannot_be_kept_is_compiled_all_the_same(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise error

    monkeypatch.setattr(caching.FunctionCache, "save_overload", no_room)
    monkeypatch.setattr(caching.FunctionCache, "load_overload", lambda *_: None)
    assert compiled("int64(int64[::1])")(total)(np.arange(7)) == 21
