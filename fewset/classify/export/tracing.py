"""Torch functions as ONNX graphs, made by torch's exporter and compared with the original."""

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jaxtyping
import numpy as np
import torch
from torch import Tensor, nn

from fewset.core.errors import UserError
from fewset.core.extras import import_extra

_TOLERANCE = 1e-4  # of the largest value
_LONGEST = 300  # letters of a reason
_EXPORTER = logging.getLogger("torch.onnx")


def traced(
    function: Callable[..., Tensor],
    inputs: Mapping[str, Tensor],
    dynamic: Mapping[str, Mapping[int, str]],
    output: str,
    what: str,
) -> Any:
    """The graph (a `ModelProto`) of a function of named tensors. `what` it is, for errors.

    :param dynamic: the axes of each input that may have any length, with their names
    """
    onnx, onnxruntime, _ = (import_extra(name, "export") for name in ("onnx", "onnxruntime", "onnxscript"))
    shapes = tuple(dict.fromkeys(dynamic.get(name, {}), torch.export.Dim.DYNAMIC) for name in inputs)
    longer = {name: _doubled(value, dynamic.get(name, {})) for name, value in inputs.items()}
    with torch.no_grad():
        expected = [function(*given.values()) for given in (inputs, longer)]
    try:
        with _tracing():
            program = torch.onnx.export(
                _Module(function).eval(),
                tuple(inputs.values()),
                input_names=list(inputs),
                output_names=[output],
                dynamic_shapes=(shapes,),
                dynamo=True,
                external_data=False,
                verbose=False,
            )
        assert program is not None
        graph = program.model_proto
        _name_axes(graph, dynamic)
        _remove_origin(graph)
        onnx.checker.check_model(graph)
        session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
        right = all(map(_agree, [session] * 2, [inputs, longer], expected))
    except Exception as error:  # torch raises almost anything where it cannot follow a network
        reason = " ".join(str(error.__cause__ or error).split())[:_LONGEST]
        raise UserError(f"torch cannot write {what} as ONNX: {reason}; choose another one") from error
    if not right:
        raise UserError(f"as ONNX {what} gives other results than in torch; choose another one")
    return graph


def _doubled(value: Tensor, axes: Iterable[int]) -> Tensor:
    """Twice as long along these axes, to find lengths that the exporter has taken for constants."""
    for axis in axes:
        value = torch.cat([value, value.flip(axis)], dim=axis)
    return value


def _agree(session: Any, inputs: Mapping[str, Tensor], expected: Tensor) -> bool:
    (output,) = session.run(None, {name: value.cpu().numpy() for name, value in inputs.items()})
    near = _TOLERANCE * float(expected.abs().max())
    return output.shape == tuple(expected.shape) and np.allclose(output, expected.cpu(), atol=near)


class _Module(nn.Module):
    """The exporter takes modules; it names and writes the weights of a method's owner once."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function, self.owner = function, getattr(function, "__self__", None)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs)


def _name_axes(graph: Any, dynamic: Mapping[str, Mapping[int, str]]) -> None:
    """Give the axes of the inputs their names; the exporter numbers them."""
    renamed = {}
    for value in graph.graph.input:
        for axis, name in dynamic.get(value.name, {}).items():
            renamed[value.type.tensor_type.shape.dim[axis].dim_param] = name
    for value in (*graph.graph.input, *graph.graph.output, *graph.graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in renamed:  # a fixed length has no name, and stays
                dim.dim_param = renamed[dim.dim_param]


def _remove_origin(graph: Any) -> None:
    """Remove the lines of code from which nodes come: they name files of this machine."""
    values = (*graph.graph.value_info, *graph.graph.input, *graph.graph.output)
    nodes = (node for owner in (graph.graph, *graph.functions) for node in owner.node)
    for part in (graph, graph.graph, *graph.functions, *values, *nodes):
        part.ClearField("metadata_props")


@contextmanager
def _tracing() -> Iterator[None]:
    """Silence the exporter's advice to its developers, and the checks of shapes: lengths are symbols here."""
    level, unchecked = _EXPORTER.level, jaxtyping.config.jaxtyping_disable
    _EXPORTER.setLevel(logging.ERROR)
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            yield
    finally:
        _EXPORTER.setLevel(level)
        jaxtyping.config.update("jaxtyping_disable", unchecked)
