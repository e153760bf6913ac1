"""Loops that end by a condition: a counter of their own, a bound, and scan outputs cut to the trips made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from onnx_gs.analysis import trip_counts
from onnx_gs.analysis.known_values import KnownValues
from onnx_gs.analysis.loops import LoopParts, is_true, origin
from onnx_gs.ir import Constant, Node, Variable, edit, walk
from onnx_gs.passes.base import Pass
from onnx_gs.passes.emitter import Emitter
from onnx_gs.passes.loop_edits import add_carried

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx_gs.ir import Graph, Tensor
    from onnx_gs.ir.edit import Editor
    from onnx_gs.passes.base import Report


@dataclass(frozen=True)
class BoundLoop(Pass):
    """Give a ``Loop`` that ends by a computed condition what TensorRT needs of it: a trip limit, a counter, scan outputs of the right length.

    Matches:   ``ai.onnx::Loop`` whose condition is computed.
    Rewrites:  where it has scan outputs or reads the iteration number: a counter carried from 0. Without a trip count the counter stands for
               the iteration number. Scan outputs are cut to the counter's final value by ``Slice``, which changes nothing for ONNX Runtime. A
               loop with scan outputs and no trip count gets the bound that evaluating its condition gives, or the one stated in ``bounds``.
    Requires:  opset 10 for the ``Slice``. A stated bound is the caller's word: a loop that would run longer is cut short.
    Declines:  scan outputs, no trip count, and no bound found or stated.
    TensorRT:  its parser knows no iteration number where no trip count is given, and takes no scan output there; an engine fills scan outputs to the
               full trip count, whatever the condition said.

    Before::                                                      After::
        y, z = Loop ("", c, x) <body = b (i, ci, s)                   y, n, r = Loop (8, c, x, 0) <body = b (i, ci, s, j)
            => (co, so, o) {...}>                                         => (co, so, jo, o) { ... jo = Add (j, 1) }>
                                                                      z = Slice (r, [0], Reshape (n, [1]), [0])

    Args:
        bounds: loop's node name → most trips, stated by the caller.
        max_trips: for every other loop whose bound cannot be found; None states nothing.
    """

    name: ClassVar[str] = "bound-loop"
    bounds: Mapping[str, int] = field(default_factory=dict)
    max_trips: int | None = None

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place and note what was done."""
        for root in (graph, *graph.functions):
            edit.rename_apart(root)
            with edit.Editor(root) as editor:
                for owner, node in walk.nodes(root, op="Loop"):
                    loop = LoopParts(node)
                    if loop.well_formed and loop.cond.name and not is_true(loop.cond_out) and origin(loop.cond_out) is not loop.cond_in:
                        self._bound(editor, owner, loop, report)

    def _bound(self, editor: Editor, owner: Graph, loop: LoopParts, report: Report) -> None:
        counter = _counter(loop)
        open_scans = [j for j in range(loop.scans) if editor.is_used(loop.scan(j)) and not _is_cut(loop, loop.scan(j), counter)]
        unlimited = not loop.trip.name
        unknown_number = unlimited and editor.is_used(loop.iteration)
        if not open_scans and not unknown_number:
            return
        if open_scans and editor.root.opset < 10:
            report.decline(owner, loop.node, f"cutting scan outputs needs opset 10, not {editor.root.opset}")
            return
        limit, why = None, ""
        if open_scans and unlimited:
            limit, why = self._limit(loop)
            if limit is None:
                report.decline(owner, loop.node, f"it has scan outputs and nothing limits its trips: {why}; state a bound")
                return
        done = [f"{limit} trips at most, {why}"] if limit is not None else []
        done += ["a counter for the iteration number"] if unknown_number else []
        done += [f"{len(open_scans)} scan outputs cut to the trips made"] if open_scans else []
        report.rewrote(owner, loop.node, ", ".join(done))
        if counter is None:
            counter = _add_counter(editor, loop)
        if unknown_number:
            editor.replace_uses(loop.iteration, _like_number(editor, loop, loop.state_in(counter)))
        if limit is not None:
            loop.node.inputs[0] = Constant(editor.names.fresh(f"{loop.node.name or 'loop'}_trips"), np.array(limit, np.int64))
        for j in open_scans:
            _cut(editor, owner, loop, loop.scan(j), loop.final(counter))

    def _limit(self, loop: LoopParts) -> tuple[int | None, str]:
        stated = self.bounds.get(loop.node.name)
        if stated is not None:
            return stated, "as stated"
        count = trip_counts.of_loop(loop.node, KnownValues())
        if count.at_most is not None:
            return count.at_most, "found by evaluating the condition"
        if self.max_trips is not None:
            return self.max_trips, "as stated"
        return None, count.why


def _counter(loop: LoopParts) -> int | None:
    """Find a carried value that counts trips from 0."""
    known = KnownValues()
    for k in range(loop.carried):
        after = origin(loop.state_out(k))
        step = after.inputs[0] if len(after.inputs) == 1 else None
        if step is None or step.op != "Add" or not step.is_onnx or loop.initial(k).dtype != np.int64 or known.scalar(loop.initial(k)) != 0:
            continue
        a, b = step.inputs
        inside = loop.state_in(k)
        if (origin(a) is inside and known.scalar(b) == 1) or (origin(b) is inside and known.scalar(a) == 1):
            initial = known.of(loop.initial(k))
            if initial is not None and initial.ndim == 0 and loop.final(k).name:
                return k
    return None


def _add_counter(editor: Editor, loop: LoopParts) -> int:
    emit = Emitter(editor.names, editor.root.opset, f"{loop.node.name or 'loop'}_trip")
    initial = emit.constant(np.array(0, np.int64))
    inside = Variable(editor.names.fresh(f"{loop.node.name or 'loop'}_trip"), np.int64, [])
    after = emit.elementwise("Add", inside, emit.constant(np.array(1, np.int64)))
    final = Variable(editor.names.fresh(f"{loop.node.name or 'loop'}_trips"), np.int64, [])
    add_carried(editor, loop, initial, inside, after, final)
    editor.append(loop.body, emit.nodes)
    return loop.carried - 1


def _like_number(editor: Editor, loop: LoopParts, counter: Tensor) -> Tensor:
    """Give the counter the shape that the body declares for the iteration number."""
    shape = loop.iteration.shape
    if shape is None or len(shape) == 0:
        return counter
    emit = Emitter(editor.names, editor.root.opset, counter.name)
    made = emit.reshape(counter, [1])
    editor.insert_first(loop.body, emit.nodes)
    return made


def _cut(editor: Editor, owner: Graph, loop: LoopParts, scan: Tensor, trips: Tensor) -> None:
    emit = Emitter(editor.names, editor.root.opset, scan.name)
    rows = Variable(editor.names.fresh(f"{scan.name}_rows"), scan.dtype, scan.shape)
    slot = next(at for at, t in enumerate(loop.node.outputs) if t is scan)
    emit.op("Slice", rows, emit.constant([0]), emit.reshape(trips, [1]), emit.constant([0]), dtype=rows.dtype)
    loop.node.outputs[slot] = rows
    editor.insert_after(owner, loop.node, emit.nodes)
    emit.nodes[-1].outputs[0] = scan


def _is_cut(loop: LoopParts, scan: Tensor, counter: int | None) -> bool:
    """Say whether a scan output is only read by slices up to the counter's final value."""
    if counter is None or not scan.outputs:
        return False
    final = loop.final(counter)
    for reader in scan.outputs:
        if reader.op != "Slice" or len(reader.inputs) < 3 or reader.inputs[0] is not scan:
            return False
        end: Node | None = reader.inputs[2].inputs[0] if reader.inputs[2].inputs else None
        while end is not None and end.op in {"Reshape", "Unsqueeze", "Identity"} and end.inputs[0] is not final:
            end = end.inputs[0].inputs[0] if end.inputs[0].inputs else None
        if end is None or end.op not in {"Reshape", "Unsqueeze", "Identity"}:
            return False
    return True
