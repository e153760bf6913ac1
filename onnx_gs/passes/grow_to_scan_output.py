"""Carried values that only grow → scan outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnx_gs.analysis.loops import LoopParts, origin
from onnx_gs.ir import Node, Variable, edit, walk
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.passes.base import Pass
from onnx_gs.passes.emitter import Emitter
from onnx_gs.passes.loop_edits import add_scan, drop_carried, drop_dead_nodes, droppable

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Tensor
    from onnx_gs.ir.edit import Editor
    from onnx_gs.passes.base import Report


@dataclass(frozen=True)
class GrowToScanOutput(Pass):
    """Replace a carried value that only grows by ``Concat`` by a scan output of what each trip adds.

    Matches:   a carried value of ``ai.onnx::Loop`` whose next value is ``Concat`` of itself, first or last, and of others; the body reads
               neither it nor the next value elsewhere.
    Rewrites:  what a trip adds becomes a scan output; after the loop the rows are merged along the axis, in reverse where the body prepends,
               and joined to the initial value. Works with any trip count.
    Requires:  what a trip adds has the same, known shape each trip; dims that are computed need opset 14. Arithmetic stays.
    Declines:  the value is read inside (unroll, if the trip count is known); the added part has an unknown rank, or a length that may differ.
    TensorRT:  a recurrence must keep its shape.

    Before::                                                            After::
        y = Loop (m, c, x) <body = b (i, ci, s) => (co, so)               z = Loop (m, c) <body = b (i, ci) => (co, r) {
            { so = Concat <axis = 0> (s, v) ... }>                            r = Identity (v) ... }>
                                                                          y = Concat <axis = 0> (x, Reshape (z, [-1, ...]))
    """

    name: ClassVar[str] = "grow-to-scan-output"

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place and note what was done."""
        for root in (graph, *graph.functions):
            edit.rename_apart(root)
            with edit.Editor(root) as editor:
                for owner, node in walk.nodes(root, op="Loop"):
                    loop = LoopParts(node)
                    if loop.well_formed:
                        _loop(editor, owner, loop, report)


@dataclass
class _Growth:
    k: int
    concat: Node
    axis: int
    parts: list[Tensor]  # what a trip adds
    prepends: bool
    shape: list[Any]  # of what a trip adds


def _loop(editor: Editor, owner: Graph, loop: LoopParts, report: Report) -> None:
    found: list[_Growth] = []
    for k in range(loop.carried):
        growth = _growth(editor, loop, k)
        if isinstance(growth, str):
            if growth:
                report.decline(owner, loop.node, f"carried value '{loop.state_in(k).name}' grows, but {growth}")
        elif growth is not None:
            found.append(growth)
    kept = droppable(editor, loop, [g.k for g in found])
    found = [g for g in found if g.k in kept]
    if not found:
        return
    report.rewrote(owner, loop.node, ", ".join(f"'{loop.state_in(g.k).name}' only grows" for g in found))
    used = [g for g in found if loop.final(g.k).name and editor.is_used(loop.final(g.k))]
    scans = [(g, _row(editor, loop, g), loop.initial(g.k), loop.final(g.k)) for g in used]
    drop_carried(editor, loop, [g.k for g in found])
    for g, row, initial, final in scans:
        scan = Variable(editor.names.fresh(f"{final.name}_rows"), final.dtype if final.dtype is not None else row.dtype, None)
        if row.shape is not None:
            scan.shape = [None, *row.shape]
        add_scan(editor, loop, row, scan)
        emit = Emitter(editor.names, editor.root.opset, final.name)
        merged = _merge(emit, scan, g, initial)
        editor.insert_after(owner, loop.node, emit.nodes)
        editor.replace_uses(final, merged)
    drop_dead_nodes(editor, loop.body)
    if not loop.node.outputs:
        editor.remove(owner, loop.node)


def _growth(editor: Editor, loop: LoopParts, k: int) -> _Growth | str | None:
    """Tell how a carried value grows: a reason where that is not enough, None where it does not grow by Concat."""
    inside, outside = loop.state_in(k), origin(loop.state_out(k))
    producer = outside.inputs[0] if len(outside.inputs) == 1 else None
    if producer is None or producer.op != "Concat" or not producer.is_onnx or editor.holder.get(id(producer)) is not loop.body:
        return None
    ends = [origin(t) is inside for t in producer.inputs]
    if sum(ends) != 1:
        return None if not any(ends) else "it is joined with itself"
    if not (ends[0] or ends[-1]) or len(ends) == 1:
        return "it grows in the middle"
    if _read(editor, loop, inside, producer) or _returned(editor, loop, k, producer):
        return "the body reads it"
    parts = list(producer.inputs[1:]) if ends[0] else list(producer.inputs[:-1])
    shapes = [t.shape for t in parts]
    if any(s is None for s in shapes) or len({len(s) for s in shapes}) != 1:
        return "the rank of what a trip adds is not known"
    if ends[-1] and editor.root.opset < 10:
        return f"it grows in front, and turning rows around needs opset 10, not {editor.root.opset}"
    rank = len(shapes[0])
    axis = int(producer.attrs["axis"])
    if not -rank <= axis < rank:
        return "its axis is out of range"
    axis %= rank
    shape: list[Any] = [next((s[d] for s in shapes if is_static_dim(s[d])), None) for d in range(rank)]
    lengths = [s[axis] for s in shapes]
    shape[axis] = sum(int(d) for d in lengths) if all(is_static_dim(d) for d in lengths) else None
    if shape[axis] is None and not _invariant(loop, parts, editor):
        return "the length of what a trip adds may differ from trip to trip"
    if not all(is_static_dim(d) for d in shape) and editor.root.opset < 14:
        return f"the dims of what a trip adds are not known, which needs opset 14, not {editor.root.opset}"
    return _Growth(k, producer, axis, parts, ends[-1], shape)


def _invariant(loop: LoopParts, parts: list[Tensor], editor: Editor) -> bool:
    inside = {id(g) for g in walk.graphs(loop.body)}
    return all(id(editor.home(t)) not in inside for t in parts)


def _read(editor: Editor, loop: LoopParts, inside: Tensor, concat: Node) -> bool:
    """Say whether anything but the Concat reads a carried value, through Identity too."""
    pending, seen = [inside], set()
    while pending:
        t = pending.pop()
        if editor.listed_by(t):
            return True
        for reader in t.outputs:
            if reader is concat:
                continue
            if reader.op != "Identity" or not reader.is_onnx or id(reader) in seen:
                return True
            seen.add(id(reader))
            pending.append(reader.outputs[0])
    return False


def _returned(editor: Editor, loop: LoopParts, k: int, concat: Node) -> bool:
    """Say whether the next value has another use than being the next value."""
    t = loop.state_out(k)
    while True:
        wanted = 1 if t is loop.state_out(k) else 0
        if sum(1 for o in loop.body.outputs if o is t) != wanted or any(g is not loop.body for g in editor.listed_by(t)):
            return True
        readers = list(t.outputs)
        if t is loop.state_out(k):
            if readers:
                return True
        elif len(readers) != 1:
            return True
        producer = t.inputs[0]
        if producer is concat:
            return False
        t = producer.inputs[0]


def _row(editor: Editor, loop: LoopParts, g: _Growth) -> Tensor:
    """Make what a trip adds a value of the body's own."""
    emit = Emitter(editor.names, editor.root.opset, f"{loop.state_in(g.k).name}_row")
    row = emit.concat(g.parts, g.axis) if len(g.parts) > 1 else emit.identity(g.parts[0])
    if isinstance(row, Variable):
        row.shape = [int(d) if is_static_dim(d) else None for d in g.shape]
        if row.dtype is None:
            row.dtype = loop.state_in(g.k).dtype
    editor.insert_before(loop.body, g.concat, emit.nodes)
    return row


def _merge(emit: Emitter, scan: Tensor, g: _Growth, initial: Tensor) -> Tensor:
    """Merge rows ``[trips, d...]`` along the axis and join them to the initial value."""
    rank = len(g.shape)
    turned = emit.reverse(scan, 0) if g.prepends else scan
    perm = [*range(1, g.axis + 1), 0, *range(g.axis + 1, rank + 1)]
    turned = emit.transpose(turned, perm)  # the trips stand before the axis
    known = [is_static_dim(d) and d > 0 for d in g.shape]
    if all(known):
        target = [-1 if d == g.axis else int(g.shape[d]) for d in range(rank)]
        merged = emit.reshape(turned, target, [None if d == g.axis else int(g.shape[d]) for d in range(rank)])
    else:
        merged = _reshape_by_dims(emit, turned, g, initial)
    if initial.shape is not None and len(initial.shape) == rank and is_static_dim(initial.shape[g.axis]) and int(initial.shape[g.axis]) == 0:
        return merged
    return emit.concat([merged, initial] if g.prepends else [initial, merged], g.axis)


def _reshape_by_dims(emit: Emitter, turned: Tensor, g: _Growth, initial: Tensor) -> Variable:
    """Reshape where dims are computed: those of the initial value, which ``Concat`` has to share, and the product along the axis."""
    rank = len(g.shape)
    sizes = emit.shape_of(turned)
    pair = emit.gather(sizes, emit.constant(np.array([g.axis, g.axis + 1], np.int64)))
    length = emit.reduce("ReduceProd", pair, [0], keepdims=True)
    outer = emit.shape_of(initial)
    parts: list[Tensor] = []
    for d in range(rank):
        if d == g.axis:
            parts.append(length)
        elif is_static_dim(g.shape[d]):
            parts.append(emit.constant(np.array([int(g.shape[d])], np.int64)))
        else:
            parts.append(emit.gather(outer, emit.constant(np.array([d], np.int64))))
    target = emit.concat(parts, 0)
    shape = [None if d == g.axis or not is_static_dim(g.shape[d]) else int(g.shape[d]) for d in range(rank)]
    return emit.op("Reshape", turned, target, dtype=turned.dtype, shape=shape, allowzero=1)


