"""Operators that join, split, pick, repeat and move elements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from onnx_gs.analysis import dim_expr
from onnx_gs.analysis.dim_expr import Expr, ceildiv, floordiv
from onnx_gs.analysis.shape_arithmetic import MAX_ITEMS, Contents, grid, ungrid
from onnx_gs.analysis.shape_functions.operands import as_size, blank, broadcast, given, integers_of, static, target_of
from onnx_gs.analysis.shape_functions.table import handles

if TYPE_CHECKING:
    from onnx_gs.analysis.dim_expr import Dim
    from onnx_gs.analysis.shape_arithmetic import Item
    from onnx_gs.analysis.shape_values import ShapeFacts
    from onnx_gs.ir.node import Node


@handles("Concat")
def _concat(f: ShapeFacts, node: Node) -> None:
    shapes = [f.shape(t) for t in node._inputs]
    dtype = next((d for t in node._inputs if (d := f.dtype(t)) is not None), None)
    known = next((s for s in shapes if s is not None and 0 not in s), next((s for s in shapes if s is not None), None))
    if known is None:
        return f.tell(node._outputs[0], dtype, None)
    rank = len(known)
    axis = int(node.attrs.get("axis", 1)) % rank
    total: Dim = 0
    out: list[Dim] = list(known)
    for s in shapes:
        if s is None:
            total = f.fresh()
            break
        total = total + s[axis]
        for i, size in enumerate(s):
            if isinstance(out[i], Expr) and isinstance(size, int) and 0 not in s:  # ONNX Runtime takes empty operands of any sizes
                out[i] = size
    out[axis] = total
    contents = None
    if dtype is not None and dtype.kind in {"int", "uint", "bool"}:
        parts = [f.contents(t) or blank(s) for t, s in zip(node._inputs, shapes)]
        if all(p is not None for p in parts) and any(i is not None for p in parts for i in p.items):  # type: ignore[union-attr]
            if rank == 1:
                items = tuple(i for p in parts for i in p.items)  # type: ignore[union-attr]
                contents = Contents((len(items),), items)
            else:
                contents = ungrid(np.concatenate([grid(p) for p in parts], axis=axis))  # type: ignore[arg-type]
    return f.tell(node._outputs[0], dtype, tuple(out), contents)


@handles("Split")
def _split(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims, dtype, held = f.shape(x), f.dtype(x), f.contents(x)
    count = len(node._outputs)
    if dims is None:
        for t in node._outputs:
            f.tell(t, dtype, None)
        return
    axis = int(node.attrs.get("axis", 0)) % len(dims)
    try:
        sizes: list[Dim] | None = integers_of(f, node, "split", 1)  # type: ignore[assignment]
    except ValueError:
        sizes = [f.fresh() for _ in range(count)]
    if sizes is None:
        total = dims[axis]
        if count == 1:
            sizes = [total]
        else:
            each = ceildiv(total, count) if "num_outputs" in node.attrs else floordiv(total, count)
            sizes = [each] * (count - 1) + [total - each * (count - 1)]
            if isinstance(total, Expr) and not dim_expr.is_at_least(sizes[-1], 0):
                sizes = [each if dim_expr.exact_quotient(total, count) is not None else f.fresh() for _ in range(count)]
    start = 0
    for t, size in zip(node._outputs, sizes):
        shape = (*dims[:axis], size, *dims[axis + 1 :])
        contents = None
        if held is not None and isinstance(size, int) and isinstance(start, int):
            contents = ungrid(np.take(grid(held), range(start, start + size), axis=axis))
        start = start + size  # type: ignore[assignment]
        f.tell(t, dtype, shape, contents)


@handles("SplitToSequence")
def _split_to_sequence(f: ShapeFacts, node: Node) -> None:
    x, out = node._inputs[0], node._outputs[0]
    dims, split = f.shape(x), given(node, 1)
    f.only_here()
    f.tell(out, None, None)
    if dims is None or not dims:
        return
    axis = int(node.attrs.get("axis", 0)) % len(dims)
    size: tuple[Dim | None, ...] = (1,) if node.attrs.get("keepdims", 1) else ()
    if split is not None:
        held, total = f.contents(split), dims[axis]
        found = None
        if held is not None and held.items and type(held.items[0]) is int and all(i == held.items[0] for i in held.items):
            found = held.items[0]  # all alike; a single number cuts a rest off where it does not divide the axis
            if held.shape == () and (found <= 0 or not isinstance(total, int) or total % found):
                found = None
        size = (found,)
    f.elements[id(out)] = (f.dtype(x), (*dims[:axis], *size, *dims[axis + 1 :]))


@handles("SequenceAt", attributes=False)
def _sequence_at(f: ShapeFacts, node: Node) -> None:
    f.only_here()
    found = f.elements.get(id(node._inputs[0]))
    if found is not None:
        dtype, dims = found
        f.tell(node._outputs[0], dtype, tuple(f.fresh() if d is None else d for d in dims))


@handles("Gather")
def _gather(f: ShapeFacts, node: Node) -> None:
    x, at = node._inputs
    dims, where = f.shape(x), f.shape(at)
    if dims is None or where is None:
        return f.tell(node._outputs[0], f.dtype(x), None)
    axis = int(node.attrs.get("axis", 0)) % len(dims)
    held, indices = f.contents(x), f.contents(at)
    contents = None
    if held is not None and indices is not None and all(type(i) is int for i in indices.items):
        contents = ungrid(np.asarray(np.take(grid(held), np.array(indices.items, np.int64).reshape(indices.shape), axis=axis), dtype=object))
    return f.tell(node._outputs[0], f.dtype(x), (*dims[:axis], *where, *dims[axis + 1 :]), contents)


@handles("GatherElements", attributes=False)
def _gather_elements(f: ShapeFacts, node: Node) -> None:
    f.tell(node._outputs[0], f.dtype(node._inputs[0]), f.shape(node._inputs[1]))


@handles("GatherND")
def _gather_nd(f: ShapeFacts, node: Node) -> None:
    dims, at = f.shape(node._inputs[0]), f.shape(node._inputs[1])
    batch = int(node.attrs.get("batch_dims", 0))
    known = dims is not None and at is not None and isinstance(at[-1], int)
    f.tell(node._outputs[0], f.dtype(node._inputs[0]), (*at[:-1], *dims[batch + at[-1] :]) if known else None)  # type: ignore[index]


@handles("Expand", attributes=False)
def _expand(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    target = target_of(f, node._inputs[1])
    shape = broadcast(f, f.shape(x), target)
    held = f.contents(x)
    contents = None
    known = static(shape)
    if held is not None and known is not None and math.prod(known) <= MAX_ITEMS:
        contents = ungrid(np.broadcast_to(grid(held), known))
    f.tell(node._outputs[0], f.dtype(x), shape, contents)


@handles("Tile", attributes=False)
def _tile(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims, counts = f.shape(x), f.contents(node._inputs[1])
    if dims is None:
        return f.tell(node._outputs[0], f.dtype(x), None)
    repeats: list[Item] = [None] * len(dims) if counts is None else list(counts.items)
    shape = tuple(d * as_size(f, r) if r is not None else f.fresh() for d, r in zip(dims, repeats))
    held = f.contents(x)
    contents = None
    known = static(shape)
    if held is not None and known is not None and math.prod(known) <= MAX_ITEMS:
        contents = ungrid(np.tile(grid(held), [int(r) for r in repeats]))  # type: ignore[arg-type]
    return f.tell(node._outputs[0], f.dtype(x), shape, contents)


@handles("Transpose")
def _transpose(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims, held = f.shape(x), f.contents(x)
    perm = node.attrs.get("perm")
    if dims is None:
        return f.tell(node._outputs[0], f.dtype(x), f.unknown(len(perm)) if perm else None)
    order = list(perm) if perm else list(range(len(dims)))[::-1]
    contents = ungrid(grid(held).transpose(order)) if held is not None else None
    return f.tell(node._outputs[0], f.dtype(x), tuple(dims[int(p)] for p in order), contents)


@handles("Pad")
def _pad(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    if dims is None:
        return f.tell(node._outputs[0], f.dtype(x), None)
    amounts: list[Item]
    if "pads" in node.attrs or "paddings" in node.attrs:
        amounts = list(node.attrs["pads"] if "pads" in node.attrs else node.attrs["paddings"])
    else:
        held = f.contents(node._inputs[1])
        if held is None:
            return f.tell(node._outputs[0], f.dtype(x), f.unknown(len(dims)))
        amounts = list(held.items)
    axes = list(range(len(dims)))
    if (chosen := given(node, 3)) is not None:
        found = f.integers(chosen)
        if found is None:
            return f.tell(node._outputs[0], f.dtype(x), f.unknown(len(dims)))
        axes = [a % len(dims) for a in found]
    out = list(dims)
    for i, axis in enumerate(axes):
        before, after = amounts[i], amounts[i + len(axes)]
        out[axis] = dims[axis] + before + after if isinstance(before, (int, Expr)) and isinstance(after, (int, Expr)) else f.fresh()
    return f.tell(node._outputs[0], f.dtype(x), tuple(out))


@handles("DepthToSpace", "SpaceToDepth")
def _depth(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    if dims is None:
        return f.tell(node._outputs[0], f.dtype(x), f.unknown(4))
    n, c, h, w = dims
    b = int(node.attrs["blocksize"])
    if node.op == "DepthToSpace":
        return f.tell(node._outputs[0], f.dtype(x), (n, floordiv(c, b * b), h * b, w * b))
    return f.tell(node._outputs[0], f.dtype(x), (n, c * (b * b), floordiv(h, b), floordiv(w, b)))


@handles("Compress")
def _compress(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    if "axis" not in node.attrs:
        return f.tell(node._outputs[0], f.dtype(x), (f.fresh(),))
    if dims is None:
        return f.tell(node._outputs[0], f.dtype(x), None)
    axis = int(node.attrs["axis"]) % len(dims)
    return f.tell(node._outputs[0], f.dtype(x), (*dims[:axis], f.fresh(), *dims[axis + 1 :]))
