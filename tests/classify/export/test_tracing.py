"""What torch's exporter cannot follow, or writes wrongly, is one line with a remedy."""

import logging
import warnings

import pytest
import torch
from torch import Tensor

from fewset.classify.export.tracing import traced
from fewset.core.errors import UserError
from tests.helpers.onnx_files import run

ROWS = {"rows": torch.arange(6.0).view(3, 2)}


def test_axes_have_names_and_nobody_is_disturbed() -> None:
    level = logging.getLogger("torch.onnx").level
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph = traced(lambda rows: rows.sum(dim=0) * 2, ROWS, {"rows": {0: "B"}}, "sums", "it")
    (given,) = graph.graph.input
    assert [axis.dim_param or axis.dim_value for axis in given.type.tensor_type.shape.dim] == ["B", 2]
    (sums,) = run(graph, rows=torch.ones(7, 2).numpy())
    assert sums.tolist() == [14, 14]
    assert logging.getLogger("torch.onnx").level == level


def by_value(rows: Tensor) -> Tensor:
    return rows if rows.sum() > 3 else -rows


def random(rows: Tensor) -> Tensor:
    return torch.rand_like(rows)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (by_value, r"torch cannot write the encoder as ONNX"),
        (random, "gives other results than in torch"),
    ],
)
def test_what_cannot_be_written_is_refused(function: object, reason: str) -> None:
    with pytest.raises(UserError, match=reason) as refused:
        traced(function, ROWS, {"rows": {0: "B"}}, "rows out", "the encoder")  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)
