"""Inputs made constant, with values that the caller states."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnx_gs.errors import GraphValueError
from onnx_gs.ir import dtypes
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.passes.base import Pass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx_gs.ir import Graph, Tensor
    from onnx_gs.passes.base import Report


@dataclass(frozen=True)
class FreezeInputs(Pass):
    """Turn inputs of the model into constants of given values; the interface loses them.

    Matches:   inputs of the model's graph by name.
    Rewrites:  the input into a weight of the same name, so that folding goes on from there.
    Requires:  a value of the input's shape and, after an exact conversion, of its element type.
    Declines:  nothing; a value that does not fit is an error, as the caller stated it.
    TensorRT:  takes axes, depths, modes and the like only while building (``ReduceSum`` axes, ``CumSum`` axis, ``OneHot`` depth), and sizes
               only from integer inputs.

    Before::                                             After (``axis=1``)::
        g (float[2,3] x, int64 axis) => (float[2,3] y)       g (float[2,3] x) => (float[2,3] y) <int64 axis = {1}>
        { y = CumSum (x, axis) }                             { y = CumSum (x, axis) }

    Args:
        values: value by input name: an array, a number, or a (nested) list of numbers.
    """

    name: ClassVar[str] = "freeze-inputs"

    values: Mapping[str, Any] = field(default_factory=dict)

    def run(self, graph: Graph, report: Report) -> None:
        """Freeze the inputs that are named.

        Raises:
            GraphValueError: there is no such input, or the value does not fit it.
        """
        inputs = {t.name: t for t in graph.inputs}
        converted: dict[str, np.ndarray[Any, Any]] = {}
        for name, value in self.values.items():
            if name not in inputs:
                raise GraphValueError(
                    f"there is no input '{name}' to freeze", where=f"graph '{graph.name}'", fix=f"the inputs are {sorted(inputs) or 'none'}"
                )
            converted[name] = _fitted(graph, inputs[name], value)
        for name, array in converted.items():
            tensor = inputs[name]
            readers = list(tensor.outputs)
            if readers and any(n is readers[0] for n in graph.nodes):
                report.rewrote(graph, readers[0], f"input '{name}' is frozen")
            tensor.to_constant(array)
        graph.inputs[:] = [t for t in graph.inputs if t.name not in converted]


def _fitted(graph: Graph, tensor: Tensor, value: Any) -> np.ndarray[Any, Any]:
    """Convert a stated value to the input's type and check its shape."""
    where = f"graph '{graph.name}'"
    array = np.asarray(value)
    dtype = dtypes.of(tensor)
    if dtype is not None and dtype is not dtypes.STRING:
        wanted = array.astype(dtype.numpy)
        same = array.dtype.kind in {"f", "V"} or bool(np.all(wanted == array))
        if not same or (array.dtype.kind == "f" and dtype.kind != "float"):
            raise GraphValueError(
                f"value {value!r:.60} of input '{tensor.name}' is no {dtype.name.lower()}", where=where, fix="give a value of the input's type"
            )
        array = wanted
    shape = tensor.shape
    if shape is not None:
        fits = len(shape) == array.ndim and all(not is_static_dim(d) or int(d) == n for d, n in zip(shape, array.shape))
        if not fits and array.size == 1 and all(not is_static_dim(d) or int(d) == 1 for d in shape):
            array, fits = array.reshape([1] * len(shape)), True  # a number for a tensor of one element
        if not fits:
            found = f"the value of input '{tensor.name}' has shape {list(array.shape)}, the input {list(shape)}"
            raise GraphValueError(found, where=where, fix="give a value of the input's shape")
    return array


