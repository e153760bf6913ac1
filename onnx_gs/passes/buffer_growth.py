"""Carried values that grow and are read → a buffer of the final length, filled row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnx_gs.analysis import constness, trip_counts
from onnx_gs.analysis.loops import LoopParts, origin
from onnx_gs.ir import Node, Variable, dtypes, edit, walk
from onnx_gs.ir.shapes import is_static, is_static_dim
from onnx_gs.passes.base import Pass
from onnx_gs.passes.emitter import Emitter

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Tensor
    from onnx_gs.ir.edit import Editor
    from onnx_gs.passes.base import Report


@dataclass(frozen=True)
class BufferGrowth(Pass):
    """Replace a carried value that grows by one row a trip, and is read by row, by a buffer that has its final length from the start.

    Matches:   a carried value of a counted ``ai.onnx::Loop`` whose next value is ``Concat`` along axis 0 of itself and one row, read otherwise only
               by ``Gather`` along axis 0 at positions that are surely not negative.
    Rewrites:  the initial value with as many rows of zeros behind it as there will be trips; each trip writes its row with ``ScatterND``.
    Requires:  opset 11, known ranks and element type. Values stay to the bit; a read past the rows written so far, which was an error, gives zero.
    Declines:  other readers, positions that may count from the end, more than one row a trip.
    TensorRT:  a recurrence must keep its shape.

    Before::                                                       After::
        y = Loop (m, "", x) <body = b (i, ci, s) => (co, so) {         b = Concat <axis = 0> (x, zeros)
            r = Gather (s, i) ... so = Concat <axis = 0> (s, v)}>      y = Loop (m, "", b) <body = b (i, ci, s) => (co, so) {
                                                                           r = Gather (s, i) ... so = ScatterND (s, [[i + len(x)]], v) }>
    """

    name: ClassVar[str] = "buffer-growth"

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place and note what was done."""
        for root in (graph, *graph.functions):
            if root.opset < 11:
                continue
            edit.rename_apart(root)
            numbers = {id(node.attrs["body"].inputs[0]) for _, node in walk.nodes(root, op="Loop") if node.attrs["body"].inputs}
            with edit.Editor(root) as editor:
                for owner, node in walk.nodes(root, op="Loop"):
                    loop = LoopParts(node)
                    if loop.well_formed:
                        for k in range(loop.carried):
                            self._carried(editor, owner, loop, k, numbers, report)

    def _carried(self, editor: Editor, owner: Graph, loop: LoopParts, k: int, numbers: set[int], report: Report) -> None:
        concat = _appended(editor, loop, k)
        if concat is None:
            return
        count = trip_counts.of_loop(loop.node)
        initial, row = loop.initial(k), concat.inputs[1]
        problem = ""
        if not count.runs_out or not loop.trip.name:
            problem = f"the trips are not counted: {count.why}"
        elif initial.shape is None or row.shape is None or len(row.shape) != len(initial.shape) or not is_static_dim(row.shape[0]):
            problem = "its rank, or the number of rows that a trip adds, is not known"
        elif int(row.shape[0]) != 1:
            problem = f"a trip adds {row.shape[0]} rows"
        elif (known := dtypes.of(initial)) is None or known.kind == "string":
            problem = "its element type is not known"
        else:
            problem = _other_reader(editor, loop, k, concat, numbers)
        if problem:
            report.decline(owner, loop.node, f"carried value '{loop.state_in(k).name}' grows and is read, and {problem}")
            return
        report.rewrote(owner, loop.node, f"'{loop.state_in(k).name}' is a buffer of its final length")
        _replace(editor, owner, loop, k, concat)


def _appended(editor: Editor, loop: LoopParts, k: int) -> Node | None:
    """Give the Concat that appends one tensor to a carried value along axis 0."""
    last = origin(loop.state_out(k))
    node = last.inputs[0] if len(last.inputs) == 1 else None
    if node is None or node.op != "Concat" or not node.is_onnx or len(node.inputs) != 2 or editor.holder.get(id(node)) is not loop.body:
        return None
    axis = node.attrs.get("axis")
    shape = loop.initial(k).shape
    if axis != 0 and not (shape is not None and isinstance(axis, int) and axis + len(shape) == 0):
        return None
    return node if node.inputs[0] is loop.state_in(k) and node.inputs[1] is not loop.state_in(k) else None


def _other_reader(editor: Editor, loop: LoopParts, k: int, concat: Node, numbers: set[int]) -> str:
    inside = loop.state_in(k)
    if editor.listed_by(inside):
        return "it is returned as it is"
    for reader in inside.outputs:
        if reader is concat:
            continue
        if reader.op != "Gather" or not reader.is_onnx or reader.attrs.get("axis", 0) != 0 or reader.inputs[0] is not inside:
            return f"'{reader.name or reader.op}' ({reader.op}) reads it whole"
        if not _not_negative(reader.inputs[1], numbers):
            return f"'{reader.name or reader.op}' may count from its end"
    t = loop.state_out(k)
    while True:
        if (t.outputs and t is loop.state_out(k)) or (t is not loop.state_out(k) and len(t.outputs) != 1):
            return "the next value is read too"
        if sum(1 for o in loop.body.outputs if o is t) != (1 if t is loop.state_out(k) else 0):
            return "the next value is returned twice"
        producer = t.inputs[0]
        if producer is concat:
            return ""
        t = producer.inputs[0]


def _not_negative(index: Tensor, numbers: set[int]) -> bool:
    """Say whether an index is surely at least 0: a constant, an iteration number, or a sum or product of such."""
    pending, steps = [index], 0
    while pending:
        t = pending.pop()
        steps += 1
        if id(t) in numbers:
            continue
        values = constness.array(t, 1 << 12)
        if values is not None:
            if values.dtype.kind not in "iu" or (values.size and values.min() < 0):
                return False
            continue
        node = t.inputs[0] if len(t.inputs) == 1 and t.inputs[0].is_onnx else None
        if node is None or steps > 100:
            return False
        if node.op in {"Add", "Mul"}:
            pending.extend(node.inputs)
        elif node.op in {"Identity", "Unsqueeze", "Squeeze", "Reshape"}:
            pending.append(node.inputs[0])
        else:
            return False
    return True


def _replace(editor: Editor, owner: Graph, loop: LoopParts, k: int, concat: Node) -> None:
    initial, inside = loop.initial(k), loop.state_in(k)
    rank = len(initial.shape)
    before = Emitter(editor.names, editor.root.opset, f"{inside.name}_buffer")
    length = before.dim(initial, 0)
    known = dtypes.of(initial)
    assert known is not None  # checked before
    trips = before.reshape(loop.trip, [1])
    sizes: list[Tensor] = [trips]
    if rank > 1:
        if is_static(initial.shape[1:]):
            sizes.append(before.constant(np.array([int(d) for d in initial.shape[1:]], np.int64)))
        else:
            whole = before.shape_of(initial)
            sizes.append(before.gather(whole, before.constant(np.arange(1, rank, dtype=np.int64))))
    rest: list[Any] = [int(d) if is_static_dim(d) else None for d in initial.shape[1:]]
    zero = before.constant(np.zeros((), known.numpy))
    blank = before.op("Expand", zero, before.concat(sizes, 0), dtype=initial.dtype, shape=[None, *rest])
    buffer = before.op("Concat", initial, blank, dtype=initial.dtype, shape=[None, *rest], axis=0)
    editor.insert_before(owner, loop.node, before.nodes)
    loop.node.inputs[2 + k] = buffer
    for t in (inside, loop.state_out(k), concat.outputs[0]):
        if isinstance(t, Variable):
            t.shape = [None, *rest]
    at = Emitter(editor.names, editor.root.opset, f"{inside.name}_row")
    position = at.elementwise("Add", loop.iteration, length)
    index = at.reshape(position, [1, 1])
    written = at.op("ScatterND", inside, index, concat.inputs[1], dtype=initial.dtype, shape=[None, *rest])
    editor.replace(loop.body, concat, at.nodes, [written])
