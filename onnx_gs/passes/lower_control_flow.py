"""Control flow lowered as far as that can be done exactly: all the passes for it, to a fixpoint with folding and inference between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from onnx_gs.analysis.loops import LoopParts
from onnx_gs.errors import GraphValueError
from onnx_gs.ir import Graph, order, walk
from onnx_gs.ops import traits
from onnx_gs.passes.base import Entry, Pass, Report
from onnx_gs.passes.bound_loop import BoundLoop
from onnx_gs.passes.buffer_growth import BufferGrowth
from onnx_gs.passes.check_carried_shapes import CheckCarriedShapes
from onnx_gs.passes.equalize_ranks import EqualizeRanks
from onnx_gs.passes.grow_to_scan_output import GrowToScanOutput
from onnx_gs.passes.hoist_common import HoistCommon
from onnx_gs.passes.hoist_invariants import HoistInvariants
from onnx_gs.passes.if_to_where import IfToWhere
from onnx_gs.passes.infer_shapes import InferShapes
from onnx_gs.passes.inline_if import InlineIf
from onnx_gs.passes.loop_to_reduce import LoopToReduce
from onnx_gs.passes.lower_constants import LowerConstants
from onnx_gs.passes.lower_optional import LowerOptional
from onnx_gs.passes.lower_scan import LowerScan
from onnx_gs.passes.lower_sequence import LowerSequence
from onnx_gs.passes.mask_loop import MaskLoop
from onnx_gs.passes.normalize_if import NormalizeIf
from onnx_gs.passes.normalize_loop import NormalizeLoop
from onnx_gs.passes.pipeline import check
from onnx_gs.passes.share_outer import ShareOuter
from onnx_gs.passes.simplify import Simplify
from onnx_gs.passes.slice_by_counter import SliceByCounter
from onnx_gs.passes.unroll_loop import UnrollLoop
from onnx_gs.passes.vectorize_loop import VectorizeLoop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx_gs.ir import Node
    from onnx_gs.passes.bind_dims import DimSizes

_WANTED = traits.CONTROL_FLOW | traits.SEQUENCE | traits.OPTIONAL
_FOLDING = ("fold-constants", "fold-shape-values", "fold-targets", "eliminate-identity", "eliminate-casts", "share-subexpressions", "cleanup")
_MOST_ROUNDS = 100
_LOOPS = frozenset({"Loop"})
_IFS = frozenset({"If"})
#: What each pass is for: a model that has none of it is spared the pass.
_FOR: dict[str, frozenset[str]] = {
    LowerOptional.name: traits.OPTIONAL, LowerSequence.name: traits.SEQUENCE | {"SequenceMap"}, NormalizeIf.name: _IFS, InlineIf.name: _IFS,
    NormalizeLoop.name: _LOOPS, LowerScan.name: frozenset({"Scan"}), GrowToScanOutput.name: _LOOPS, SliceByCounter.name: _LOOPS,
    VectorizeLoop.name: _LOOPS, LoopToReduce.name: _LOOPS, UnrollLoop.name: _LOOPS, HoistCommon.name: _IFS, ShareOuter.name: traits.CONTROL_FLOW,
    IfToWhere.name: _IFS, BufferGrowth.name: _LOOPS, MaskLoop.name: _LOOPS,
    HoistInvariants.name: _LOOPS | {"Scan"}, BoundLoop.name: _LOOPS, EqualizeRanks.name: _IFS,
}  # fmt: skip


@dataclass(frozen=True)
class LowerControlFlow(Pass):
    """Replace ``If``, ``Loop``, ``Scan``, sequences and optionals as far as that can be done exactly; what TensorRT takes may stay.

    Matches:   the operators with bodies, and those on sequences and optionals, at any depth.
    Rewrites:  by the passes for each construct, in rounds: what conditions say, constant conditions, common nodes; loops in plain form, Scans,
               growing values, counters, vectorized and reducing loops, unrolling; then, where nothing of that is left to do, hoisting, ``Where``,
               buffers, bounds for loops that end by a condition, equal ranks. Constants and shapes are folded between the rounds.
    Requires:  a sorted graph (done here). Names and types of the model's inputs and outputs stay, and so do the names of what is not rewritten;
               weights are never copied.
    Declines:  as each pass says; what is still there in the end is in the report's ``left``, with the reasons.
    TensorRT:  see the page on lowering for what it refuses and what is done about it.

    It ends because each round has to make the model smaller by a measure: the operators with bodies, counted by how deep they are nested (unrolling
    one copies only shallower ones), then the sequence and optional operators, then the values that loops carry.

    Args:
        max_nodes: the most nodes that unrolling one loop may give.
        bind: a dim's name, or an input and its axis → the size; the model is for that size afterwards.
        freeze: input → its value; the input goes.
        bounds: loop's node name → the most trips, where nothing in the model says; a longer run would be cut short.
        max_trips: the most trips of every loop that a computed condition ends and nothing else bounds; a longer run would be cut short.
        where: the most nodes in both branches of an ``If`` that becomes a ``Where``; 0 keeps every ``If`` that is not decided.
        unroll: whether loops with a known trip count are unrolled at all.
        reorder: also where float arithmetic is added up in another order: results are close then, not equal.
        mask: also unroll loops that may end early within a known bound, each trip behind a mask, so that all of them are computed in every run.
        verify: run the graph before and after in ONNX Runtime, on three seeded inputs and two sizes of every symbolic dim.

    Example:
        >>> from onnx_gs.ir import Graph, Node, Variable
        >>> x, y = Variable("x", "float32", [2]), Variable("y", "float32", [2])
        >>> LowerControlFlow()(Graph([Node("Neg", inputs=[x], outputs=[y])], [x], [y])).left
        []
    """

    name: ClassVar[str] = "lower-control-flow"
    max_nodes: int = 2000
    bind: DimSizes = field(default_factory=dict)
    freeze: Mapping[str, Any] = field(default_factory=dict)
    bounds: Mapping[str, int] = field(default_factory=dict)
    max_trips: int | None = None
    where: int = 12
    unroll: bool = True
    reorder: bool = False
    mask: bool = False
    verify: bool = False

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place and note what was done.

        Raises:
            GraphValueError: ``max_nodes`` is negative, or what is stated of dims or inputs does not fit the model.
            VerificationError: ``verify`` found an output that changed; it names the pass and the node.
        """
        if self.max_nodes < 0:
            raise GraphValueError(f"max_nodes is {self.max_nodes}", fix="give 0 or more")
        self._state(graph, report)
        if not _has_control_flow(graph):
            return
        for root in (graph, *graph.functions):
            for g in walk.graphs(root):
                order.sort_nodes(g)
        before = graph.copy() if self.verify else None
        ran: list[Pass] = []
        self._rounds(graph, report, ran)
        if before is not None:
            bounds = {"absolute": 1e-5, "relative": 1e-3} if self.reorder else {}
            check(before, graph, ran, **bounds)

    def _rounds(self, graph: Graph, report: Report, ran: list[Pass]) -> None:
        self._run(graph, report, ran, LowerConstants())
        self._run(graph, report, ran, CheckCarriedShapes())
        declined = _LastRound(report)
        measure = _measure(graph)
        for _ in range(_MOST_ROUNDS):
            declined.start()
            self._fold(graph, report, ran)
            self._round(graph, report, ran, self._exact())
            now = _measure(graph)
            if now < measure and _has_control_flow(graph):
                measure = now
                continue
            self._round(graph, report, ran, self._last())
            now = _measure(graph)
            if not now < measure:
                break
            measure = now
        self._fold(graph, report, ran)
        declined.finish(graph)

    def _state(self, graph: Graph, report: Report) -> None:
        """Put in what the caller states."""
        if self.bind:
            from onnx_gs.passes.bind_dims import BindDims

            BindDims(self.bind).apply(graph, report)
        if self.freeze:
            from onnx_gs.passes.freeze_inputs import FreezeInputs

            FreezeInputs(dict(self.freeze)).apply(graph, report)

    def _run(self, graph: Graph, report: Report, ran: list[Pass], p: Pass) -> None:
        p.apply(graph, report)
        ran.append(p)

    def _fold(self, graph: Graph, report: Report, ran: list[Pass]) -> None:
        self._run(graph, report, ran, InferShapes())
        self._run(graph, report, ran, Simplify(only=_FOLDING))

    def _round(self, graph: Graph, report: Report, ran: list[Pass], passes: list[Pass]) -> None:
        present = _ops(graph)
        for p in passes:
            if not present & _FOR[p.name]:
                continue
            before = report.changed
            self._run(graph, report, ran, p)
            if report.changed != before:
                present = _ops(graph)
                if present:
                    self._run(graph, report, ran, InferShapes())

    def _exact(self) -> list[Pass]:
        """List the passes that remove control flow, or what stands in their way."""
        unrolling: list[Pass] = [UnrollLoop(max_nodes=self.max_nodes)] if self.unroll else []
        return [
            LowerOptional(), LowerSequence(), NormalizeIf(), InlineIf(), NormalizeLoop(), LowerScan(max_nodes=self.max_nodes if self.unroll else 0),
            GrowToScanOutput(), SliceByCounter(), VectorizeLoop(), LoopToReduce(reorder=self.reorder), *unrolling,
        ]  # fmt: skip

    def _last(self) -> list[Pass]:
        """List the passes for what stays, and for what nothing else would decide any more."""
        choosing: list[Pass] = [IfToWhere(max_nodes=self.where)] if self.where else []
        bounding = BoundLoop(dict(self.bounds), self.max_trips)
        masking: list[Pass] = [MaskLoop(max_nodes=self.max_nodes)] if self.mask else []
        return [HoistCommon(), ShareOuter(), NormalizeIf(), *choosing, *masking, BufferGrowth(), HoistInvariants(), bounding, EqualizeRanks()]


def _has_control_flow(graph: Graph) -> bool:
    return bool(_ops(graph))


def _ops(graph: Graph) -> set[str]:
    """Give the operators of control flow, sequences and optionals that a model has."""
    return {node.op for g in walk.graphs(graph, functions=True) for node in g.nodes if node.op in _WANTED and node.is_onnx}


def _measure(graph: Graph) -> tuple[tuple[int, ...], int, int]:
    """Count what is left: operators with bodies by height, the highest first; sequence and optional operators; what loops carry and give."""
    height: dict[int, int] = {}
    every = list(walk.graphs(graph, functions=True))
    counts: dict[int, int] = {}
    others = carried = 0
    for g in reversed(every):  # inner before outer
        tallest = 0
        for node in g.nodes:
            if node.has_body:
                # A Scan stands above the one or two loops that it becomes.
                own = max((height.get(id(b), 0) for b in walk.bodies(node)), default=0) + (3 if node.op == "Scan" else 1)
                tallest = max(tallest, own)
                counts[own] = counts.get(own, 0) + 1
                if node.op == "Loop":
                    carried += LoopParts(node).carried + len(node.outputs)
                elif node.op == "If":
                    carried += len(node.outputs)
            elif node.op in _WANTED and node.is_onnx:
                others += 1
        height[id(g)] = tallest
    most = max(counts, default=0)
    return (most, *(counts.get(h, 0) for h in range(most, 0, -1))), others, carried


class _LastRound:
    """Keeps, of all that was declined, what was declined at last: an earlier reason may no longer hold."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.kept = len(report.declined)

    def start(self) -> None:
        """Begin a round: forget what the round before declined."""
        self.report.forget_declined(self.kept)

    def finish(self, graph: Graph) -> None:
        """Note what is left, with the reasons given for it."""
        reasons: dict[str, list[str]] = {}
        for entry in self.report.declined[self.kept :]:
            reasons.setdefault(entry.path, []).append(entry.reason)
        found: list[tuple[Graph, Node]] = [(g, n) for g, n in walk.nodes(graph, functions=True) if n.op in _WANTED and n.is_onnx]
        for g, n in found:
            path = self.report.path(g, n)
            why = "; ".join(dict.fromkeys(reasons.get(path, ()))) or "TensorRT takes it as it is, or no pass knows it"
            self.report.leave(g, n, why)


def left_by_op(entries: list[Entry]) -> dict[str, int]:
    """Count what is left by operator.

    Example:
        >>> left_by_op([Entry("lower-control-flow", "n", "Loop", "graph 'g' > node 'n' (Loop)")])
        {'Loop': 1}
    """
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry.op] = counts.get(entry.op, 0) + 1
    return counts
