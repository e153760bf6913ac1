"""Loops that end by a condition, within a bound → all trips that may be made, each behind a mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from onnx_gs.analysis import speculation, trip_counts
from onnx_gs.analysis.known_values import KnownValues
from onnx_gs.analysis.loops import LoopParts, trusted_symbols
from onnx_gs.ir import Constant, dtypes, edit, walk
from onnx_gs.ir.bulk import collector_paused
from onnx_gs.ir.instantiate import Body
from onnx_gs.ir.shapes import is_static
from onnx_gs.passes.base import Pass
from onnx_gs.passes.emitter import Emitter
from onnx_gs.passes.if_to_where import SELECTABLE
from onnx_gs.passes.loop_edits import forget_symbols

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Tensor
    from onnx_gs.ir.edit import Editor
    from onnx_gs.passes.base import Report


@dataclass(frozen=True)
class MaskLoop(Pass):
    """Replace a ``Loop`` that may end early, but makes a known number of trips at most, by so many trips, each behind a mask.

    Matches:   ``ai.onnx::Loop`` whose trips are bounded but not known, without scan outputs that are read.
    Rewrites:  the body once for each trip that may be made; each carried value by ``Where`` on whether the loop still runs: the new value, or the
               one it has. All trips are computed in every run, whether they are needed or not.
    Requires:  carried values of static shapes that stay, of a type that ``Where`` selects, or bool. Values stay to the bit: what is computed behind a
               mask is discarded.
    Declines:  more than ``max_nodes`` nodes; an operator that may fail in a trip that is not made; shapes that may change.
    TensorRT:  takes such loops as they are; without a loop a model can be captured in a CUDA graph.

    Before::                                                            After::
        y = Loop ("", c, x) <body = b (i, ci, s) => (co, so) {              a = Add (x, x)    s1 = Where (c, a, x)
            so = Add (s, s)  co = Less (ReduceMax (so), k) }>               c1 = And (c, Less (ReduceMax (a), k))
                                                                            b = Add (s1, s1)  y = Where (c1, b, s1)  …

    Args:
        max_nodes: the most nodes that one loop may become.
    """

    name: ClassVar[str] = "mask-loop"
    max_nodes: int = 2000

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place and note what was done."""
        for root in (graph, *graph.functions):
            edit.rename_apart(root)
            with edit.Editor(root) as editor, collector_paused():
                for owner, node in walk.nodes(root, op="Loop"):
                    loop = LoopParts(node)
                    if loop.well_formed and not any(n.has_body for n in loop.body.nodes):
                        self._mask(editor, owner, loop, report)

    def _mask(self, editor: Editor, owner: Graph, loop: LoopParts, report: Report) -> None:
        count = trip_counts.of_loop(loop.node, KnownValues())
        if count.exact is not None or count.runs_out:
            return
        if count.at_most is None:
            report.decline(owner, loop.node, f"nothing bounds its trips: {count.why}")
            return
        problem = self._problem(editor, loop, count.at_most)
        if problem:
            report.decline(owner, loop.node, problem)
            return
        report.rewrote(owner, loop.node, f"{count.at_most} trips behind masks")
        _unroll(editor, owner, loop, count.at_most)

    def _problem(self, editor: Editor, loop: LoopParts, trips: int) -> str:
        if not loop.cond.name:
            return "it has no condition input"
        if any(editor.is_used(loop.scan(j)) for j in range(loop.scans)):
            return "how many rows its scan outputs have depends on the trips made"
        size = (len(loop.body.nodes) + loop.carried) * trips
        if size > self.max_nodes:
            return f"{trips} trips behind masks are {size} nodes, more than {self.max_nodes}"
        for k in range(loop.carried):
            before, after = loop.initial(k), loop.state_out(k)
            kind = dtypes.of(before)
            if kind is not dtypes.BOOL and kind not in SELECTABLE:
                return f"carried value '{loop.state_in(k).name}' is of a type that Where does not select everywhere"
            if not is_static(before.shape) or not is_static(after.shape) or list(before.shape) != list(after.shape):
                return f"the shape of carried value '{loop.state_in(k).name}' may change"
        for node in loop.body.nodes:
            hazard = speculation.hazard(node, editor.root.opset, trusted_symbols(editor.root))
            fits = all(is_static(t.shape) for t in node.inputs if t.name)
            if hazard and not (hazard.endswith("is costly") and fits):
                return f"{hazard} in a trip that is not made"
        return ""


def _unroll(editor: Editor, owner: Graph, loop: LoopParts, trips: int) -> None:
    forget_symbols(loop.body)
    body = Body(loop.body)
    emit = Emitter(editor.names, editor.root.opset, loop.node.name or "loop")
    shape = loop.iteration.shape
    dims = [1] if shape is not None and len(shape) == 1 else []
    true = Constant(editor.names.fresh("true"), np.ones([1] if loop.cond_in.shape is not None and len(loop.cond_in.shape) == 1 else [], np.bool_))
    state: list[Tensor] = [loop.initial(k) for k in range(loop.carried)]
    going = _scalar(emit, loop.cond)
    limit = _scalar(emit, loop.trip) if loop.trip.name and KnownValues().scalar(loop.trip) is None else None
    for trip in range(trips):
        number = emit.constant(np.full(dims, trip, np.int64))
        if limit is not None:
            going = emit.elementwise("And", going, emit.elementwise("Less", emit.constant(np.array(trip, np.int64)), limit, dtype=np.bool_))
        nodes, outputs = body.instantiate([number, true, *state], editor.names)
        emit.nodes.extend(nodes)
        state = [_chosen(emit, going, new, old) for new, old in zip(outputs[1:], state)]
        if trip + 1 < trips:
            going = emit.elementwise("And", going, _scalar(emit, outputs[0]))
    editor.replace(owner, loop.node, emit.nodes, [*state, *([None] * loop.scans)])


def _scalar(emit: Emitter, t: Tensor) -> Tensor:
    return t if t.shape is not None and len(t.shape) == 0 else emit.reshape(t, emit.constant(np.zeros(0, np.int64)), [])


def _chosen(emit: Emitter, going: Tensor, new: Tensor, old: Tensor) -> Tensor:
    if new is old:
        return old
    if dtypes.of(old) is dtypes.BOOL:
        kept = emit.elementwise("And", emit.elementwise("Not", going), old)
        return emit.elementwise("Or", emit.elementwise("And", going, new), kept)
    return emit.op("Where", going, new, old, dtype=old.dtype, shape=list(old.shape))
