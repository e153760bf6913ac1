"""``Slice``: where it starts and ends, in numbers and in expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_gs.analysis import dim_expr
from onnx_gs.analysis.dim_expr import Expr, ceildiv, maximum, minimum
from onnx_gs.analysis.shape_arithmetic import grid, ungrid
from onnx_gs.analysis.shape_functions.operands import FAR, given
from onnx_gs.analysis.shape_functions.table import handles

if TYPE_CHECKING:
    from onnx_gs.analysis.dim_expr import Dim
    from onnx_gs.analysis.shape_arithmetic import Item
    from onnx_gs.analysis.shape_values import ShapeFacts
    from onnx_gs.ir.node import Node
    from onnx_gs.ir.tensor import Tensor


def clamped(item: Item, dim: Dim) -> Dim | None:
    """Give where a start or end of ``Slice`` with step 1 falls on an axis, between 0 and the dim; None where that is not known."""
    if item is None or isinstance(item, float):
        return None
    if type(item) is int:
        if item >= FAR:
            return dim
        if item < 0:
            return maximum(dim + item, 0)
        return minimum(item, dim)
    if dim_expr.is_at_least(item, 0):
        return minimum(item, dim)
    if dim_expr.is_at_least(-1, item):
        return maximum(dim + item, 0)
    return None


def taken(start: int, end: int, step: int, dim: int) -> range | None:
    """Give the indices that ``Slice`` takes on an axis; None where runtimes and specification disagree.

    Backwards, a start before the axis is its first element, unlike in Python; and ends that mean "to the end" forwards, which ONNX Runtime takes as
    "to the start" then.

    Example:
        >>> taken(-2, 100, 1, 5), list(taken(4, -100, -2, 5)), list(taken(-100, -101, -1, 5)), taken(4, 2**63 - 1, -1, 5)
        (range(3, 5), [4, 2, 0], [0], None)
    """
    if step < 0 and end >= FAR:
        return None
    lowest, highest = (0, dim) if step > 0 else (-1, dim - 1)
    first = min(max(start + dim if start < 0 else start, 0), highest)
    last = min(max(end + dim if end < 0 else end, lowest), highest)
    return range(first, last, step)


def as_slice(indices: range) -> slice:
    """Give the same indices as a slice of an array; none of them may lie outside it."""
    if not indices:
        return slice(0, 0)
    return slice(indices.start, indices.stop if indices.stop >= 0 else None, indices.step)


def slice_parts(f: ShapeFacts, node: Node) -> tuple[list[Item], list[Item], list[int], list[Item]] | None:
    """Give starts, ends, axes and steps of a ``Slice``, elements None where not known; None where not even the axes are."""
    if "starts" in node.attrs:
        starts, ends = list(node.attrs["starts"]), list(node.attrs["ends"])
        axes = list(node.attrs.get("axes", range(len(starts))))
        return [int(s) for s in starts], [int(e) for e in ends], [int(a) for a in axes], [1] * len(starts)
    counts = [f.shape(t) for t in list(node._inputs)[1:3]]
    count = next((c[0] for c in counts if c is not None and len(c) == 1 and isinstance(c[0], int)), None)
    if count is None:
        return None
    starts, ends = (_items(f, t, count) for t in list(node._inputs)[1:3])
    axes_in, steps_in = given(node, 3), given(node, 4)
    if axes_in is not None:
        found = f.integers(axes_in)
        if found is None:
            return None
        axes = list(found)
    else:
        axes = list(range(count))
    return starts, ends, axes, [1] * count if steps_in is None else _items(f, steps_in, count)


def _items(f: ShapeFacts, t: Tensor, count: int) -> list[Item]:
    held = f.contents(t)
    return [None] * count if held is None else list(held.items)


@handles("Slice")
def _slice(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims, held = f.shape(x), f.contents(x)
    parts = slice_parts(f, node)
    if dims is None or parts is None:
        return f.tell(node._outputs[0], f.dtype(x), None if dims is None else f.unknown(len(dims)))
    out = list(dims)
    for start, end, axis, step in zip(*parts):
        out[axis % len(dims)] = _sliced(f, dims[axis % len(dims)], start, end, step)
    contents = None
    if held is not None and all(type(p) is int for group in (parts[0], parts[1], parts[3]) for p in group):
        items = grid(held)
        cuts: list[Any] = [slice(None)] * len(dims)
        for start, end, axis, step in zip(*parts):
            indices = taken(start, end, step, items.shape[axis]) if step != 0 else None  # type: ignore[arg-type]
            if indices is None:
                return f.tell(node._outputs[0], f.dtype(x), tuple(out))
            cuts[axis % len(dims)] = as_slice(indices)
        contents = ungrid(items[tuple(cuts)])
    return f.tell(node._outputs[0], f.dtype(x), tuple(out), contents)


def _sliced(f: ShapeFacts, dim: Dim, start: Item, end: Item, step: Item) -> Dim:
    if type(step) is not int or step == 0:
        return f.fresh()
    if isinstance(dim, int) and type(start) is int and type(end) is int:
        indices = taken(start, end, step, dim)
        return f.fresh() if indices is None else len(indices)
    if step < 0:
        whole = start == -1 or (type(start) is int and start >= FAR)
        return ceildiv(dim, -step) if whole and type(end) is int and end < -FAR else f.fresh()
    first, last = clamped(start, dim), clamped(end, dim)
    if last is None and isinstance(end, Expr) and dim_expr.equal(end, dim - 1):
        last = dim - 1 if dim_expr.is_at_least(dim, 1) else None
    if first is None or last is None:
        return f.fresh()
    length = maximum(last - first, 0)
    return length if step == 1 else ceildiv(length, step)
