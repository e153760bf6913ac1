"""Reductions, and operators that search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.analysis import shape_arithmetic
from onnx_gs.analysis.shape_arithmetic import ungrid
from onnx_gs.analysis.shape_functions.operands import as_size, integers_of
from onnx_gs.analysis.shape_functions.table import handles
from onnx_gs.ir import dtypes

if TYPE_CHECKING:
    from onnx_gs.analysis.shape_values import ShapeFacts
    from onnx_gs.ir.node import Node


@handles(
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip
def _reduce(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    attrs = node.attrs
    keep = bool(attrs.get("keepdims", 1))
    try:
        axes = integers_of(f, node, "axes", 1)
    except ValueError:
        return f.tell(node._outputs[0], f.dtype(x), f.unknown(len(dims)) if dims is not None and keep else None)
    if axes is None or not axes:
        if attrs.get("noop_with_empty_axes", 0):
            return f.tell(node._outputs[0], f.dtype(x), dims)
        axes = None
    if dims is None:
        return f.tell(node._outputs[0], f.dtype(x), () if axes is None and not keep else None)
    chosen = set(range(len(dims))) if axes is None else {a % len(dims) for a in axes}
    shape = tuple(1 if i in chosen else d for i, d in enumerate(dims) if keep or i not in chosen)
    held = f.contents(x)
    return f.tell(node._outputs[0], f.dtype(x), shape, shape_arithmetic.reduce(node.op, held, axes, keep, f.dtype(x)) if held else None)


@handles("ArgMax", "ArgMin")
def _arg(f: ShapeFacts, node: Node) -> None:
    dims = f.shape(node._inputs[0])
    if dims is None:
        return f.tell(node._outputs[0], dtypes.INT64, None)
    axis = int(node.attrs.get("axis", 0)) % len(dims)
    middle = (1,) if node.attrs.get("keepdims", 1) else ()
    return f.tell(node._outputs[0], dtypes.INT64, (*dims[:axis], *middle, *dims[axis + 1 :]))


@handles("TopK")
def _topk(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    k: Any = node.attrs["k"] if "k" in node.attrs else f.scalar(node._inputs[1])
    shape = None
    if dims is not None:
        axis = int(node.attrs.get("axis", -1)) % len(dims)
        shape = (*dims[:axis], as_size(f, k), *dims[axis + 1 :])
    f.tell(node._outputs[0], f.dtype(x), shape)
    f.tell(node._outputs[1], dtypes.INT64, shape)


@handles("NonZero", attributes=False)
def _nonzero(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    rank = f.rank(x)
    held = f.contents(x)
    if held is not None and held.is_known and held.shape:
        found = np.array(np.nonzero(np.array(held.items).reshape(held.shape)), dtype=object)
        return f.tell(node._outputs[0], dtypes.INT64, found.shape, ungrid(found))
    return f.tell(node._outputs[0], dtypes.INT64, (f.fresh() if rank is None else max(rank, 1), f.fresh()))


@handles("OneHot")
def _one_hot(f: ShapeFacts, node: Node) -> None:
    at = f.shape(node._inputs[0])
    shape = None
    if at is not None:
        axis = int(node.attrs.get("axis", -1)) % (len(at) + 1)
        shape = (*at[:axis], as_size(f, f.scalar(node._inputs[1])), *at[axis:])
    f.tell(node._outputs[0], f.dtype(node._inputs[2]), shape)


@handles("NonMaxSuppression", attributes=False)
def _nms(f: ShapeFacts, node: Node) -> None:
    f.tell(node._outputs[0], dtypes.INT64, (f.fresh(), 3))
