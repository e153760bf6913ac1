"""Shapes as values, constants, and operators that give the same elements another shape."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.analysis import dim_expr
from onnx_gs.analysis.dim_expr import Expr, floordiv, product
from onnx_gs.analysis.shape_arithmetic import MAX_ITEMS, Contents
from onnx_gs.analysis.shape_functions.operands import as_size, contents_as, integers_of, static, target_of
from onnx_gs.analysis.shape_functions.table import handles
from onnx_gs.ir import dtypes
from onnx_gs.ir.tensor import Tensor

if TYPE_CHECKING:
    from onnx_gs.analysis.dim_expr import Dim
    from onnx_gs.analysis.shape_arithmetic import Item
    from onnx_gs.analysis.shape_functions.table import Shape
    from onnx_gs.analysis.shape_values import ShapeFacts
    from onnx_gs.ir.node import Node


@handles("Shape")
def _shape(f: ShapeFacts, node: Node) -> None:
    dims = f.shape(node._inputs[0])
    if dims is None:
        f.tell(node._outputs[0], dtypes.INT64, (f.fresh(),))
        return
    attrs = node.attrs
    rank = len(dims)
    start, end = int(attrs.get("start", 0)), int(attrs.get("end", rank))
    dims = dims[max(start + rank, 0) if start < 0 else start : max(end + rank, 0) if end < 0 else end] if attrs else dims
    f.tell(node._outputs[0], dtypes.INT64, (len(dims),), Contents((len(dims),), dims))


@handles("Size", attributes=False)
def _size(f: ShapeFacts, node: Node) -> None:
    dims = f.shape(node._inputs[0])
    f.tell(node._outputs[0], dtypes.INT64, (), Contents((), (product(dims),)) if dims is not None else None)


@handles("Constant")
def _constant(f: ShapeFacts, node: Node) -> None:
    ((key, value),) = node.attrs.items()
    t = node._outputs[0]
    if key == "value" and isinstance(value, Tensor):
        f.tell(t, dtypes.of(value), tuple(value.shape), f.contents(value))
        return
    if key in {"value_int", "value_ints"}:
        items = tuple(value) if key == "value_ints" else (int(value),)
        shape: tuple[int, ...] = (len(items),) if key == "value_ints" else ()
        f.tell(t, dtypes.INT64, shape, Contents(shape, items))
    elif key in {"value_float", "value_floats"}:
        f.tell(t, dtypes.FLOAT, (len(value),) if key == "value_floats" else ())


@handles("ConstantOfShape")
def _constant_of_shape(f: ShapeFacts, node: Node) -> None:
    dims = target_of(f, node._inputs[0])
    value = node.attrs.get("value")
    dtype = dtypes.FLOAT if value is None else dtypes.of(value)
    contents = None
    known = static(dims)
    if known is not None and math.prod(known) <= MAX_ITEMS:
        fill: Any = 0.0 if value is None else np.asarray(value.values).ravel()[0].item()
        contents = Contents(known, (fill,) * math.prod(known)) if type(fill) in {int, bool, float} else None
    f.tell(node._outputs[0], dtype, dims, contents)


@handles("Reshape")
def _reshape(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    before = f.shape(x)
    if len(node._inputs) > 1:
        target, held = node._inputs[1], f.contents(node._inputs[1])
        if held is None:
            outer = f.shape(target)
            f.tell(node._outputs[0], f.dtype(x), f.unknown(outer[0]) if outer and len(outer) == 1 and isinstance(outer[0], int) else None)
            return
        items: tuple[Item, ...] = held.items
    else:
        items = tuple(int(v) for v in node.attrs["shape"])
    f.tell(node._outputs[0], f.dtype(x), reshaped(f, before, items, bool(node.attrs.get("allowzero", 0))), _moved(f, x, before, items))


def _moved(f: ShapeFacts, x: Tensor, before: Shape | None, items: tuple[Item, ...]) -> Contents | None:
    held = f.contents(x)
    if held is None or any(type(i) is not int for i in items):
        return None
    shape = static(reshaped(f, held.shape, items, False))
    return None if shape is None or math.prod(shape) != len(held.items) else Contents(shape, held.items)


def reshaped(f: ShapeFacts, before: Shape | None, items: tuple[Item, ...], allowzero: bool) -> Shape | None:
    """Give the shape that ``Reshape`` makes of ``before``."""
    out: list[Dim | None] = []
    inferred = None
    for i, item in enumerate(items):
        if type(item) is int and item == -1:
            inferred = i
            out.append(None)
        elif type(item) is int and item == 0 and not allowzero:
            out.append(before[i] if before is not None and i < len(before) else f.fresh())
        else:
            out.append(as_size(f, item))
    if not allowzero and before is not None:
        # where such a size is 0 the dim stays as it was: a -1 makes up for it, or there are elements all the same
        unsure = [i for i, item in enumerate(items) if isinstance(item, Expr) and i < len(before) and _may_stay(item, before[i])]
        if unsure and (inferred is not None or dim_expr.is_at_least(product(before), 1)):
            for i in unsure:
                out[i] = f.fresh()
    if inferred is not None:
        rest = product([d for d in out if d is not None])
        unknown = not isinstance(rest, int) and any(n.startswith("?") for n in dim_expr.names_in(rest))
        if before is None or (unknown and dim_expr.exact_quotient(product(before), rest) is None):
            out[inferred] = f.fresh()
        else:
            total = product(before)
            out[inferred] = floordiv(total, rest) if rest != 0 else f.fresh()
    elif before is not None and len(unsure := [i for i, d in enumerate(out) if not isinstance(d, int) and _is_fresh(items[i], d)]) == 1:
        # the element count decides the one dim that is not known
        whole = dim_expr.exact_quotient(product(before), product([d for i, d in enumerate(out) if i != unsure[0]]))  # type: ignore[misc]
        if whole is not None:
            out[unsure[0]] = whole
    return tuple(out)  # type: ignore[arg-type]


def _may_stay(item: Expr, dim: Dim) -> bool:
    return not dim_expr.is_at_least(item, 1) and dim_expr.exact_quotient(dim, item) is None


def _is_fresh(item: Item, dim: Dim | None) -> bool:
    return item is None or (isinstance(item, Expr) and item != dim)


@handles("Flatten")
def _flatten(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    if dims is None:
        f.tell(node._outputs[0], f.dtype(x), f.unknown(2))
        return
    axis = int(node.attrs.get("axis", 1))
    axis = axis + len(dims) if axis < 0 else axis
    shape = (product(dims[:axis]), product(dims[axis:]))
    held, known = f.contents(x), static(shape)
    f.tell(node._outputs[0], f.dtype(x), shape, Contents(known, held.items) if held and known is not None else None)


@handles("Squeeze")
def _squeeze(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    axes = integers_of(f, node, "axes", 1)
    held = f.contents(x)
    if dims is None:
        return f.tell(node._outputs[0], f.dtype(x), None)
    if axes is None:
        if any(isinstance(d, Expr) for d in dims):
            return f.tell(node._outputs[0], f.dtype(x), None)
        gone = {i for i, d in enumerate(dims) if d == 1}
    elif not axes:
        return f.tell(node._outputs[0], f.dtype(x), None)  # ONNX Runtime takes an empty list as all axes, the specification does not say so
    else:
        gone = {a % len(dims) for a in axes}
    shape = tuple(d for i, d in enumerate(dims) if i not in gone)
    return f.tell(node._outputs[0], f.dtype(x), shape, contents_as(shape, held))


@handles("Unsqueeze")
def _unsqueeze(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims, held = f.shape(x), f.contents(x)
    axes = integers_of(f, node, "axes", 1)
    if dims is None or axes is None:
        return f.tell(node._outputs[0], f.dtype(x), None)
    rank = len(dims) + len(axes)
    new = {a % rank for a in axes}
    rest = iter(dims)
    shape = tuple(1 if i in new else next(rest) for i in range(rank))
    return f.tell(node._outputs[0], f.dtype(x), shape, contents_as(shape, held))
