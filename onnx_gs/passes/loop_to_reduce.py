"""Sums and products over trips → ``Reduce``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from onnx_gs.analysis.loops import LoopParts, origin, surely_same, trusted_symbols
from onnx_gs.ir import Node, Tensor, dtypes, edit, walk
from onnx_gs.passes.base import Pass
from onnx_gs.passes.emitter import Emitter
from onnx_gs.passes.vectorize_loop import Plan

if TYPE_CHECKING:
    from onnx_gs.ir import Graph
    from onnx_gs.ir.edit import Editor
    from onnx_gs.passes.base import Report

_REDUCE = {"Add": "ReduceSum", "Mul": "ReduceProd", "Max": "ReduceMax", "Min": "ReduceMin"}


@dataclass(frozen=True)
class LoopToReduce(Pass):
    """Replace a ``Loop`` that only accumulates by one ``Reduce`` over all trips.

    Matches:   ``ai.onnx::Loop`` whose every carried value is ``Add``, ``Mul``, ``Max`` or ``Min`` of itself and something that no carried value
               enters, read nowhere else; the rest of the body can be computed for all trips at once (see ``vectorize-loop``).
    Rewrites:  what is accumulated, for all trips; ``ReduceSum`` and so on over them; joined with the initial value.
    Requires:  ``Max`` and ``Min`` of int32 or int64: equal to the bit. With ``reorder`` also sums and products, and floats: these are added up in
               another order, and ONNX Runtime sums integers in floating point (exact below 2⁵³ only), so results are close, not equal.
    Declines:  sums, products and floats without ``reorder``; an initial value that the first trip would broadcast.
    TensorRT:  takes both; a sum loop of 22 network layers becomes 2.

    Before::                                                              After::
        y = Loop (N, "", s0) <body = b (i, ci, s) => (co, so) {               y = Add (s0, ReduceSum (x, [0]))
            r = Gather (x, i)  so = Add (s, r) }>

    Args:
        reorder: also sums, products and floats, whose results then may differ in the last bits.
    """

    name: ClassVar[str] = "loop-to-reduce"
    reorder: bool = False

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place and note what was done."""
        for root in (graph, *graph.functions):
            edit.rename_apart(root)
            with edit.Editor(root) as editor:
                for owner, node in walk.nodes(root, op="Loop"):
                    loop = LoopParts(node)
                    if loop.well_formed and loop.carried:
                        self._reduce(editor, owner, loop, report)

    def _reduce(self, editor: Editor, owner: Graph, loop: LoopParts, report: Report) -> None:
        steps = [_step(editor, loop, k) for k in range(loop.carried)]
        found = [s for s in steps if s is not None]
        if len(found) != len(steps):
            return
        for k, (node, added) in enumerate(found):
            problem = self._problem(node.op, loop.initial(k), added, trusted_symbols(editor.root))
            if problem:
                report.decline(owner, loop.node, problem)
                return
        rows = [added for _, added in found] + [loop.row(j) for j in range(loop.scans)]
        plan = Plan(editor, loop)
        problem = plan.problem(rows)
        if problem:
            report.decline(owner, loop.node, problem)
            return
        report.rewrote(owner, loop.node, ", ".join(_REDUCE[node.op] for node, _ in found))
        emit = Emitter(editor.names, editor.root.opset, loop.node.name or "loop")
        made = plan.emit(emit, rows)
        results: list[Tensor | None] = []
        for k, (node, _) in enumerate(found):
            initial = loop.initial(k)
            if node.op in {"Max", "Min"}:
                every = emit.concat([emit.unsqueeze(initial, [0]), made[k]], 0)
                results.append(emit.reduce(_REDUCE[node.op], every, [0], keepdims=False))
            else:
                results.append(emit.elementwise(node.op, initial, emit.reduce(_REDUCE[node.op], made[k], [0], keepdims=False)))
        editor.replace(owner, loop.node, emit.nodes, [*results, *made[loop.carried :]])

    def _problem(self, op: str, initial: Tensor, added: Tensor, trusted: set[str]) -> str:
        known = dtypes.of(initial)
        whole = known in {dtypes.INT32, dtypes.INT64}
        if not (whole and op in {"Max", "Min"}) and not (self.reorder and (whole or known in {dtypes.FLOAT, dtypes.DOUBLE})):
            return f"'{op}' of {known.name if known else 'an unknown type'} would go in another order; 'reorder' allows that"
        if initial.shape is None or added.shape is None or not _fits(list(initial.shape), list(added.shape), trusted):
            return f"'{initial.name}' may take another shape in the first trip"
        return ""


def _fits(initial: list[object], added: list[object], trusted: set[str]) -> bool:
    if len(added) == 0:
        return True
    return len(initial) == len(added) and all(surely_same(a, b, trusted) for a, b in zip(initial, added))


def _step(editor: Editor, loop: LoopParts, k: int) -> tuple[Node, Tensor] | None:
    """Give the node that accumulates into a carried value and what it adds; None where the value is more than that."""
    outside, inside = loop.state_out(k), loop.state_in(k)
    last = origin(outside)
    node = last.inputs[0] if len(last.inputs) == 1 else None
    if node is None or node.op not in _REDUCE or not node.is_onnx or len(node.inputs) != 2 or editor.holder.get(id(node)) is not loop.body:
        return None
    a, b = node.inputs
    if (a is inside) == (b is inside):
        return None
    added = b if a is inside else a
    if len(inside.outputs) != 1 or editor.listed_by(inside):
        return None
    t = outside
    while True:
        if sum(1 for o in loop.body.outputs if o is t) != (1 if t is outside else 0) or len(t.outputs) != (0 if t is outside else 1):
            return None
        if t is last:
            return node, added
        t = t.inputs[0].inputs[0]
