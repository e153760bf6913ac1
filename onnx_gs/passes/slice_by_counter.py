"""Slices whose bounds come from the iteration number → ``Gather``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from onnx_gs.analysis import constness, trip_counts
from onnx_gs.analysis.loops import LoopParts, surely_same, trusted_symbols
from onnx_gs.ir import edit, walk
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.ops import traits
from onnx_gs.passes.base import Pass
from onnx_gs.passes.emitter import Emitter

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node, Tensor
    from onnx_gs.ir.edit import Editor
    from onnx_gs.passes.base import Report

_WIDEST = 4096


@dataclass(frozen=True)
class SliceByCounter(Pass):
    """Replace a ``Slice`` of constant width whose start moves with the iteration number by a ``Gather``.

    Matches:   ``ai.onnx::Slice`` in the body of a ``Loop``, of one axis, step 1, with start ``a·i + b`` and end ``start + width``, ``a`` and ``b``
               constants of at least 0.
    Rewrites:  ``Gather(x, start + [0, 1, …, width-1])`` along the axis: the same elements.
    Requires:  the slice stays inside ``x`` in every trip: the last trip's number and the dim are known, or the trip count is that very dim, or
               the model declares a shape for what is computed from the slice that only a whole slice gives.
    Declines:  a width that changes; bounds that may leave the tensor, where ``Slice`` clamps and ``Gather`` fails.
    TensorRT:  refuses slice bounds made from the iteration number.

    Before::                                                 After::
        j = Add (i1, one)  r = Slice (x, i1, j, [0])             r = Gather <axis = 0> (x, i1)
    """

    name: ClassVar[str] = "slice-by-counter"

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place and note what was done."""
        for root in (graph, *graph.functions):
            if root.opset < 10:
                continue
            edit.rename_apart(root)
            with edit.Editor(root) as editor:
                for _, node in walk.nodes(root, op="Loop"):
                    loop = LoopParts(node)
                    if loop.well_formed:
                        for body in walk.graphs(loop.body):
                            for inner in list(body.nodes):
                                if inner.op == "Slice" and inner.is_onnx and not editor.is_removed(inner):
                                    _slice(editor, body, inner, loop, report)


def _slice(editor: Editor, body: Graph, node: Node, loop: LoopParts, report: Report) -> None:
    x, starts, ends = node.inputs[:3]
    start = affine(starts, loop.iteration)
    end = affine(ends, loop.iteration)
    if start is None or end is None or (start[0] == 0 and end[0] == 0):
        return
    axes = constness.vector(node.inputs[3]) if len(node.inputs) > 3 and node.inputs[3].name else [0]
    steps = constness.vector(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4].name else [1]
    if axes is None or len(axes) != 1 or steps != [1] or x.shape is None:
        return
    axis = int(axes[0]) % len(x.shape)
    width = end[1] - start[1]
    if end[0] != start[0]:
        report.decline(body, node, "its width changes with the iteration number")
        return
    if not 0 < width <= _WIDEST or start[0] < 0 or start[1] < 0:
        report.decline(body, node, "its bounds may be negative, or it is empty or very wide")
        return
    if not _inside(editor.root, loop, x, axis, start, width) and not _declared(loop, node, axis - len(x.shape), width):
        report.decline(body, node, f"it may reach past the end of '{x.name}', where a slice is cut short")
        return
    report.rewrote(body, node, f"a Gather of {width} along axis {axis}")
    emit = Emitter(editor.names, editor.root.opset, node.outputs[0].name)
    first = starts if starts.shape is not None and len(starts.shape) == 1 else emit.reshape(starts, [1])
    index = first if width == 1 else emit.elementwise("Add", first, emit.constant(np.arange(width, dtype=np.int64)))
    picked = emit.gather(x, index, axis)
    picked.shape = [width if d == axis else s for d, s in enumerate(x.shape)]
    editor.replace(body, node, emit.nodes, [picked])


def affine(tensor: Tensor, number: Tensor) -> tuple[int, int] | None:
    """Give ``(a, b)`` where a tensor of one element is ``a·number + b`` with constants, through Add, Sub, Mul and what only reshapes; else None."""
    order: list[tuple[Tensor, bool]] = [(tensor, False)]
    found: dict[int, tuple[int, int] | None] = {}
    while order:
        t, ready = order.pop()
        if id(t) in found:
            continue
        if t is number:
            found[id(t)] = (1, 0)
            continue
        constant = constness.scalar(t)
        if constant is not None:
            found[id(t)] = (0, int(constant)) if isinstance(constant, int) and not isinstance(constant, bool) else None
            continue
        node = t.inputs[0] if len(t.inputs) == 1 and t.inputs[0].is_onnx else None
        if node is None or node.op not in {"Add", "Sub", "Mul", "Identity", "Unsqueeze", "Squeeze", "Reshape"} or len(order) > 200:
            found[id(t)] = None
            continue
        read = list(node.inputs) if node.op in {"Add", "Sub", "Mul"} else [node.inputs[0]]
        if not ready:
            order.append((t, True))
            order.extend((x, False) for x in read)
            continue
        parts = [found.get(id(x)) for x in read]
        found[id(t)] = _combine(node.op, parts)
    return found[id(tensor)]


def _combine(op: str, parts: list[tuple[int, int] | None]) -> tuple[int, int] | None:
    if any(p is None for p in parts):
        return None
    known = [p for p in parts if p is not None]
    if len(known) == 1:
        return known[0]
    (a, b), (c, d) = known
    if op == "Add":
        return a + c, b + d
    if op == "Sub":
        return a - c, b - d
    if a and c:
        return None
    return a * d + c * b, b * d


def _inside(root: Graph, loop: LoopParts, x: Tensor, axis: int, start: tuple[int, int], width: int) -> bool:
    count = trip_counts.of_loop(loop.node)
    if count.at_most is not None and is_static_dim(x.shape[axis]):
        last = start[0] * max(0, count.at_most - 1) + start[1]
        return bool(last + width <= int(x.shape[axis]))
    if start == (1, 0) and width == 1 and loop.trip.name:
        source = trip_counts.dim_source(loop.trip)
        if source is not None:
            tensor, at = source
            if tensor is x and at == axis:
                return True
            known = tensor.shape is not None and at < len(tensor.shape)
            return known and surely_same(tensor.shape[at], x.shape[axis], trusted_symbols(root))
    return False


def _declared(loop: LoopParts, node: Node, axis: int, width: int) -> bool:
    """Say whether a declared shape holds only if the slice is whole.

    That is the slice's own, or that of a carried or returned value which broadcasting makes of it and of something of size 1 there.

    Args:
        loop: the loop around it.
        node: the slice.
        axis: its axis, counted from the end.
        width: its size where it is whole.
    """
    out = node.outputs[0]
    if _size(out, axis) == width:
        return True
    returned = {id(t) for t in loop.body.outputs}
    for reader in out.outputs:
        if reader.op not in traits.BROADCASTING or not reader.is_onnx or _size(reader.outputs[0], axis) != width:
            continue
        others = [t for t in reader.inputs if t is not out and t.name]
        if id(reader.outputs[0]) in returned and all(t.shape is not None and (len(t.shape) < -axis or _size(t, axis) == 1) for t in others):
            return True
    return False


def _size(t: Tensor, axis: int) -> int | None:
    if t.shape is None or len(t.shape) < -axis or not is_static_dim(t.shape[axis]):
        return None
    return int(t.shape[axis])
