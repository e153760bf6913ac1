"""Everything that makes a model smaller without changing what it computes: the pipeline behind ``graph.simplify()`` and ``onnx-gs fold``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from onnx_gs.errors import GraphValueError
from onnx_gs.ir.bulk import collector_paused
from onnx_gs.ir.join import join_names
from onnx_gs.ir.liveness import drop_unread
from onnx_gs.ir.tensor import Constant
from onnx_gs.passes.absorb_bias import AbsorbBias
from onnx_gs.passes.absorb_scales import AbsorbScales
from onnx_gs.passes.absorb_unsqueeze import AbsorbUnsqueeze
from onnx_gs.passes.base import Pass, Report
from onnx_gs.passes.check_carried_shapes import CheckCarriedShapes
from onnx_gs.passes.check_declared_shapes import CheckDeclaredShapes, asked
from onnx_gs.passes.cleanup import Cleanup, drop_dead
from onnx_gs.passes.drop_unused_outputs import DropUnusedOutputs
from onnx_gs.passes.eliminate_arithmetic import EliminateArithmetic
from onnx_gs.passes.eliminate_casts import EliminateCasts
from onnx_gs.passes.eliminate_identity import EliminateDropout, EliminateIdentity, EliminateSingleOperand
from onnx_gs.passes.eliminate_moves import EliminateBroadcasts, EliminateEmptyParts, EliminatePads, EliminateSameShape
from onnx_gs.passes.eliminate_slices import EliminateSlices
from onnx_gs.passes.eliminate_transposes import EliminateTransposes
from onnx_gs.passes.eliminate_views import EliminateViews
from onnx_gs.passes.fold_constants import FoldConstants
from onnx_gs.passes.fold_symbolic import FoldShapeValues, FoldTargets
from onnx_gs.passes.fuse_affine import FuseBatchNorm, FuseConstants, FuseScale
from onnx_gs.passes.fuse_gemm import FuseGemm, FusePad
from onnx_gs.passes.hoist_common import HoistCommon
from onnx_gs.passes.lower_constants import lower_all
from onnx_gs.passes.merge_ifs import MergeIfs
from onnx_gs.passes.normalize_if import NormalizeIf
from onnx_gs.passes.pipeline import check, other_names
from onnx_gs.passes.rewriting import Work, works
from onnx_gs.passes.share_constants import ShareConstants
from onnx_gs.passes.share_shapes import ShareShapes
from onnx_gs.passes.share_subexpressions import ShareSubexpressions
from onnx_gs.passes.sink_into_ifs import SinkIntoIfs
from onnx_gs.passes.slices_to_split import SlicesToSplit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx_gs.ir import Graph, Node, Tensor

_MOST_ROUNDS = 12
#: Bytes by which folding may make a model larger when nothing else is said.
MAX_GROWTH = 1 << 20

#: The passes of a round, in order.
_ALWAYS: tuple[Pass, ...] = (
    FoldShapeValues(),
    FoldTargets(),
    ShareConstants(),
    ShareShapes(),
    EliminateIdentity(),
    EliminateDropout(),
    EliminateSingleOperand(),
    EliminateEmptyParts(),
    EliminateArithmetic(),
    EliminateCasts(),
    EliminateTransposes(),
    EliminateViews(),
    EliminateSlices(),
    EliminatePads(),
    EliminateSameShape(),
    EliminateBroadcasts(),
    AbsorbUnsqueeze(),
    AbsorbBias(),
    AbsorbScales(),
    SlicesToSplit(),
    MergeIfs(),
    SinkIntoIfs(),
    NormalizeIf(),
    HoistCommon(),
    ShareSubexpressions(),
)
_FUSIONS: tuple[Pass, ...] = (FuseBatchNorm(), FuseScale(), FuseConstants(), FuseGemm(), FusePad())


@dataclass(frozen=True)
class Simplify(Pass):
    """Fold, remove what does nothing, share what is there twice, and drop what is dead, until nothing changes any more.

    Inputs and outputs of the graph keep names, order and types. Results are bit-equal to those before, except with ``fuse``; ``x + 0`` may turn
    -0 into +0, which compare equal.

    Args:
        size_threshold: results of more bytes are not stored; None for no limit.
        max_growth: bytes by which weights may grow in all; None for no limit.
        fuse: also fuse operators, which reorders float arithmetic.
        keep_zero_sign: keep additions of 0, which turn -0 into +0.
        keep_subnormals: keep factors below 1, whose absorption may change results that start from numbers below 2^-126.
        verify: run the graph before and after in ONNX Runtime, on three seeded inputs and two sizes of every symbolic dim.
        only: names of the passes to run; empty for all.
        skip: names of passes to leave out.
    """

    name: ClassVar[str] = "simplify"
    size_threshold: int | None = None
    max_growth: int | None = MAX_GROWTH
    fuse: bool = False
    keep_zero_sign: bool = False
    keep_subnormals: bool = False
    verify: bool = False
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()

    def passes(self) -> list[Pass]:
        """List the passes of a round, in order.

        Raises:
            GraphValueError: ``only`` or ``skip`` names a pass that is none of these.
        """
        every = [self._with_options(p) for p in _ALWAYS]
        if self.only or self.skip:
            known = [FoldConstants.name, *(p.name for p in (*every, *_FUSIONS)), Cleanup.name, DropUnusedOutputs.name]
            for wanted in (*self.only, *self.skip):
                if wanted not in known:
                    raise GraphValueError(f"simplify has no pass '{wanted}'", fix=other_names(wanted, known))
        return [p for p in (*every, *(f for f in _FUSIONS if self.fuse or f.name in self.only)) if self._wants(p.name)]

    def _with_options(self, p: Pass) -> Pass:
        if self.keep_zero_sign and isinstance(p, EliminateArithmetic):
            return EliminateArithmetic(keep_zero_sign=True)
        if self.keep_subnormals and isinstance(p, AbsorbScales):
            return AbsorbScales(keep_subnormals=True)
        return p

    def _wants(self, name: str) -> bool:
        return name not in self.skip and (not self.only or name in self.only)

    def run(self, graph: Graph, report: Report) -> None:
        """Run rounds until nothing changes.

        Raises:
            GraphValueError: ``only`` or ``skip`` names a pass that is none of these.
            VerificationError: ``verify`` found an output that changed; it names the pass and the node.
        """
        passes = self.passes()
        before = graph.copy() if self.verify else None
        ran: list[Pass] = []
        report.shared["close"] = self.fuse
        with collector_paused():
            self._rounds(graph, report, passes, ran)
        if before is not None:
            bounds = {"absolute": 1e-5, "relative": 1e-3} if self.fuse else {}
            check(before, graph, ran, **bounds)

    def _rounds(self, graph: Graph, report: Report, passes: list[Pass], ran: list[Pass]) -> None:
        if self._wants(FoldConstants.name):
            lower_all(_graphs(graph, report), drop=True)  # which folding does too; facts about shapes are found quicker then
        weight = _weight(graph, report) if self.max_growth is not None else 0
        # What is declared of computed tensors, and inside loops, is checked once the model is smaller; until then it is not believed.
        report.shared["disbelieved"] = {id(t): t for work in works(graph, report) for t in (*asked(work), *_formal(work))}
        self._fold(graph, report, weight, ran)
        report.shared["disbelieved"] = {}
        CheckCarriedShapes().apply(graph, report)
        CheckDeclaredShapes().apply(graph, report)
        left = _ready(graph, report)
        state = 0  # of the model; grows with every change
        idle: dict[str, int] = {}  # by pass: the state in which it found nothing to do
        all_works = works(graph, report)
        for _ in range(_MOST_ROUNDS):
            before = state
            for p in passes:
                if idle.get(p.name) == state or (p.needs and not any(work.has_any(p.needs) for work in all_works)):
                    continue
                count = report.changed
                if p.shares:
                    p.apply(graph, report)
                    ran.append(p)
                else:
                    self._foreign(p, graph, report, ran)
                if report.changed > count:
                    state += 1
                else:
                    idle[p.name] = state
                if isinstance(p, ShareShapes) and state > before:
                    state += self._sweep(graph, report, ran)  # what shape arithmetic there was is mostly dead by now
            if state == before:
                break
            self._sweep(graph, report, ran)
            ready = _ready(graph, report).keys() - left.keys()
            if ready:
                if self._fold(graph, report, weight, ran, ready):
                    for work in works(graph, report):
                        work.refresh_facts()
                left = _ready(graph, report)
            state += 1
        if self._wants(DropUnusedOutputs.name):
            self._foreign(DropUnusedOutputs(), graph, report, ran)

    def _fold(self, graph: Graph, report: Report, weight: int, ran: list[Pass], ready: set[int] | None = None) -> bool:
        """Evaluate what is constant, or became so since, within what is left of the allowed growth; say whether anything was."""
        if not self._wants(FoldConstants.name):
            join_names(graph)  # which folding does too
            self._sweep(graph, report, ran)
            return False
        left = None
        if self.max_growth is not None:
            left = self.max_growth if not ran else max(0, weight + self.max_growth - _weight(graph, report))
        count = report.changed
        if ready is not None:
            report.shared["ready"] = ready
        self._foreign(FoldConstants(size_threshold=self.size_threshold, max_growth=left), graph, report, ran)
        changed = report.changed > count
        self._sweep(graph, report, ran)
        return changed

    def _sweep(self, graph: Graph, report: Report, ran: list[Pass]) -> bool:
        """Drop what became dead; the report has an entry only where this was asked for by name, as it follows from the other entries."""
        if not self._wants(Cleanup.name):
            return _drop_folded(graph, report)
        ran.append(Cleanup())
        started = time.perf_counter()
        if self.only:
            count = report.changed
            Cleanup().run(graph, report)
            dead = report.changed > count
            has_bodies = True
        else:
            all_works = works(graph, report)
            has_bodies = any(len(work.graphs()) > 1 for work in all_works)
            if "swept" in report.shared:
                dead = bool(sum(len(drop_unread(work.graphs())) for work in all_works))
            else:
                dead = bool(drop_dead(graph, has_bodies=has_bodies))
                report.shared["swept"] = True
        report.seconds[Cleanup.name] = report.seconds.get(Cleanup.name, 0.0) + time.perf_counter() - started
        if dead and has_bodies:  # else nothing but unlinked nodes went, which everybody leaves out
            for work in works(graph, report):
                work.forget_nodes()
        return dead

    def _foreign(self, p: Pass, graph: Graph, report: Report, ran: list[Pass]) -> None:
        """Run a pass that edits by its own means, but keeps all values, so that facts stay true."""
        kept = report.shared.get("works")
        p.apply(graph, report)
        ran.append(p)
        if kept is not None:
            report.shared["works"] = kept
            for work in works(graph, report):
                work.forget_nodes()


def _graphs(graph: Graph, report: Report) -> Iterator[Graph]:
    return (owner for work in works(graph, report) for owner in work.graphs())


def _formal(work: Work) -> Iterator[Tensor]:
    """Give the inputs of bodies."""
    return (t for body in work.graphs()[1:] for t in body.inputs)


def _weight(graph: Graph, report: Report) -> int:
    """Add up the bytes of all weights in use; none is read."""
    seen: dict[int, int] = {}
    for owner in _graphs(graph, report):
        for node in owner.nodes:
            for t in node._inputs:
                if isinstance(t, Constant) and id(t) not in seen:
                    seen[id(t)] = t.nbytes
    return sum(seen.values())


def _ready(graph: Graph, report: Report) -> dict[int, Node]:
    """Give the nodes that read constants only, by id: what folding left, or what is there to fold since."""
    found: dict[int, Node] = {}
    for owner in _graphs(graph, report):
        for node in owner.nodes:
            for t in node._inputs:
                if not isinstance(t, Constant) and t._name:
                    break
            else:
                if node._inputs:
                    found[id(node)] = node
    return found


def _drop_folded(graph: Graph, report: Report) -> bool:
    """Drop what folding left of the nodes that it computed: without outputs they are no part of a model, cleaned up or not."""
    found = False
    for owner in (g for work in works(graph, report) for g in work.graphs()):
        folded = [node for node in owner.nodes if not node._outputs]
        if folded:
            found = True
            for node in folded:
                node._inputs.clear()
            owner.nodes[:] = [node for node in owner.nodes if node._outputs]
    if found:
        for work in works(graph, report):
            work.forget_nodes()
    return found
