"""Operators that make tensors out of numbers or of another's shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.analysis.dim_expr import Expr, ceildiv, maximum
from onnx_gs.analysis.shape_arithmetic import MAX_ITEMS, Contents
from onnx_gs.analysis.shape_functions.table import handles
from onnx_gs.ir import dtypes

if TYPE_CHECKING:
    from onnx_gs.analysis.dim_expr import Dim
    from onnx_gs.analysis.shape_values import ShapeFacts
    from onnx_gs.ir.node import Node


@handles("Range", attributes=False)
def _range(f: ShapeFacts, node: Node) -> None:
    start, limit, delta = (f.scalar(t) for t in node._inputs)
    dtype = next((d for t in node._inputs if (d := f.dtype(t)) is not None), None)
    length: Dim | None = None
    contents = None
    if type(delta) is int and delta != 0 and isinstance(start, (int, Expr)) and isinstance(limit, (int, Expr)):
        gap = limit - start if delta > 0 else start - limit
        length = maximum(ceildiv(gap, abs(delta)), 0)
        if type(start) is int and isinstance(length, int) and length <= MAX_ITEMS:
            contents = Contents((length,), tuple(range(start, limit, delta)))  # type: ignore[arg-type]
    f.tell(node._outputs[0], dtype, (f.fresh() if length is None else length,), contents)


@handles("EyeLike", "RandomNormalLike", "RandomUniformLike", "Bernoulli")
def _like(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    f.tell(node._outputs[0], dtypes.find(node.attrs.get("dtype")) or f.dtype(x), f.shape(x))


@handles("RandomNormal", "RandomUniform")
def _random(f: ShapeFacts, node: Node) -> None:
    f.tell(node._outputs[0], dtypes.find(node.attrs.get("dtype")) or dtypes.FLOAT, tuple(int(d) for d in node.attrs["shape"]))
