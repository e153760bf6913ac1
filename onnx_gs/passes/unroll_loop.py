"""``Loop`` with a known trip count, trip after trip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from onnx_gs.analysis import trip_counts
from onnx_gs.analysis.known_values import KnownValues
from onnx_gs.analysis.loops import LoopParts
from onnx_gs.ir import Constant, Node, Variable, edit, walk
from onnx_gs.ir.bulk import collector_paused
from onnx_gs.ir.instantiate import Body
from onnx_gs.passes.base import Pass
from onnx_gs.passes.emitter import Emitter
from onnx_gs.passes.loop_edits import forget_symbols, static_zero_rows

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Tensor
    from onnx_gs.ir.edit import Editor
    from onnx_gs.passes.base import Report


@dataclass(frozen=True)
class UnrollLoop(Pass):
    """Replace a ``Loop`` whose trip count is known by its trips, one after the other.

    Matches:   ``ai.onnx::Loop`` whose trip count is exact: a constant, a static dim, or a condition that only counts.
    Rewrites:  the body's nodes once a trip, the iteration number a constant; scan outputs by ``Unsqueeze`` and ``Concat``; inner loops first.
               Captures and weights stay shared. No trip: carried values are the initial ones, scan outputs have no rows.
    Requires:  unique names (done here). Arithmetic and its order stay.
    Declines:  an unknown trip count, with what decides it; more than ``max_nodes`` nodes; no trip and scan outputs of unknown row shape.
    TensorRT:  takes counted loops; unrolling removes what it refuses inside (carried values that change shape, slices by the iteration number, an
               ``If`` that changes a size), and small unrolled loops give smaller, faster engines. A model without loops can be captured in a CUDA
               graph.

    Before::                                                       After::
        y = Loop (2, "", x) <body = b (i, ci, s) => (co, so)          a = Add (x, w)
            <bool co = {1}> { so = Add (s, w) }>                      y = Add (a, w)

    Args:
        max_nodes: the most nodes that one loop may become; its inner loops' nodes count.
        max_trips: the most trips.
    """

    name: ClassVar[str] = "unroll-loop"
    max_nodes: int = 2000
    max_trips: int = 100_000

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place and note what was done."""
        for root in (graph, *graph.functions):
            edit.rename_apart(root)
            skipped: set[int] = set()
            while True:
                ready = _innermost(root, skipped)
                if not ready:
                    break
                with edit.Editor(root) as editor, collector_paused():
                    for owner, node in ready:
                        skipped.add(id(node))
                        self._unroll(editor, owner, node, report)

    def _unroll(self, editor: Editor, owner: Graph, node: Node, report: Report) -> None:
        loop = LoopParts(node)
        if not loop.well_formed:
            report.decline(owner, node, "the body has another number of inputs or outputs than the node")
            return
        count = trip_counts.of_loop(node, KnownValues())
        if count.exact is None:
            bound = f" (at most {count.at_most} trips)" if count.at_most is not None else ""
            report.decline(owner, node, f"the trip count is not known: {count.why}{bound}")
            return
        size = sum(len(g.nodes) for g in walk.graphs(loop.body))
        if count.exact * size > self.max_nodes or count.exact > self.max_trips:
            report.decline(owner, node, f"{count.exact} trips of {size} nodes are more than {self.max_nodes} nodes; raise max_nodes to unroll it")
            return
        if count.exact == 0:
            self._no_trip(editor, owner, loop, report)
            return
        report.rewrote(owner, node, f"{count.exact} trips, {count.why}")
        unroll(editor, owner, loop, count.exact)

    def _no_trip(self, editor: Editor, owner: Graph, loop: LoopParts, report: Report) -> None:
        used = [j for j in range(loop.scans) if loop.scan(j).name and editor.is_used(loop.scan(j))]
        empty = {j: static_zero_rows(loop.row(j)) for j in used}
        if any(rows is None for rows in empty.values()):
            report.decline(owner, loop.node, "no trip, and the shape of a scan output's rows is not known")
            return
        report.rewrote(owner, loop.node, "no trip")
        outputs: list[Tensor | None] = [loop.initial(k) for k in range(loop.carried)]
        for j in range(loop.scans):
            rows = empty.get(j)
            outputs.append(None if rows is None else Constant(editor.names.fresh(loop.scan(j).name), rows))
        editor.replace(owner, loop.node, [], outputs)


def _innermost(root: Graph, skipped: set[int]) -> list[tuple[Graph, Node]]:
    """List the loops that hold no loop that was not looked at yet."""
    loops = [(owner, node) for owner, node in walk.nodes(root, op="Loop") if id(node) not in skipped]
    waiting: set[int] = set()
    for _, node in loops:
        if any(id(inner) not in skipped for g in walk.nested(node) for inner in g.nodes if inner.op == "Loop" and inner.is_onnx):
            waiting.add(id(node))
    return [(owner, node) for owner, node in loops if id(node) not in waiting]


def unroll(editor: Editor, owner: Graph, loop: LoopParts, trips: int) -> None:
    """Replace a loop by ``trips`` copies of its body, at least one."""
    node = loop.node
    forget_symbols(loop.body)
    body = Body(loop.body)
    emit = Emitter(editor.names, editor.root.opset, node.name or "loop")
    dims = [1] if loop.iteration.shape is not None and len(loop.iteration.shape) == 1 else []
    cond_dims = [1] if loop.cond_in.shape is not None and len(loop.cond_in.shape) == 1 else []
    reads_number = editor.is_used(loop.iteration)
    nothing = Variable.empty()
    true = Constant(editor.names.fresh("true"), np.ones(cond_dims, np.bool_)) if editor.is_used(loop.cond_in) else nothing
    state: list[Tensor] = [loop.initial(k) for k in range(loop.carried)]
    wanted = [j for j in range(loop.scans) if loop.scan(j).name and editor.is_used(loop.scan(j))]
    rows: dict[int, list[Tensor]] = {j: [] for j in wanted}
    stacked: dict[int, Tensor] = {}
    for trip in range(trips):
        number = Constant(editor.names.fresh(f"{loop.iteration.name}_{trip}"), np.full(dims, trip, np.int64)) if reads_number else nothing
        nodes, outputs = body.instantiate([number, true, *state], editor.names)
        emit.nodes.extend(nodes)
        state = outputs[1 : 1 + loop.carried]
        for j in wanted:
            row = outputs[1 + loop.carried + j]
            if id(row) not in stacked:
                stacked[id(row)] = emit.unsqueeze(row, [0])
            rows[j].append(stacked[id(row)])
    scans: list[Tensor | None] = [emit.concat(rows[j], 0) if j in rows else None for j in range(loop.scans)]
    for k in range(loop.carried):
        _type_of(loop.final(k), state[k])
    editor.replace(owner, node, emit.nodes, [*state, *scans])


def _type_of(final: Tensor, last: Tensor) -> None:
    """Let the last trip's value have the type that the loop's output had, where its own is unknown."""
    if isinstance(last, Variable) and isinstance(final, Variable) and last.dtype is None and final.type == "tensor_type":
        last.dtype = final.dtype
