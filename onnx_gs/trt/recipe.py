"""The way we recommend from an ONNX model to one that TensorRT takes: simplify, lower, legalize, to a fixpoint.

Simplifying always runs: it is what makes conditions, sizes and axes constant. Lowering comes next, as most blockers are control flow, and what it
leaves can be simplified again. Legalizing comes last and only where a blocker stands, as it makes the model larger: for each blocker that the
table finds, the passes that its row names, in the order of ``LEGALIZERS``. After a round everything is simplified again, since a spelled-out operator
is full of constants; it ends when nothing blocks, or when a round has changed nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from onnx_gs.analysis import shape_inference
from onnx_gs.errors import GraphTypeError
from onnx_gs.ir import Graph
from onnx_gs.passes import catalogue
from onnx_gs.passes.base import Pass, Report
from onnx_gs.passes.expand_function_ops import ExpandFunctionOps
from onnx_gs.passes.inline_functions import InlineFunctions
from onnx_gs.passes.legalize_dtypes import LegalizeDtypes
from onnx_gs.passes.legalize_ops import LegalizeOps
from onnx_gs.passes.lower_control_flow import LowerControlFlow
from onnx_gs.passes.simplify import Simplify
from onnx_gs.passes.slice_by_choice import SliceByChoice
from onnx_gs.trt.capability import Target, target_of
from onnx_gs.trt.readiness import Readiness, check
from onnx_gs.trt.validity import require_valid

if TYPE_CHECKING:
    from onnx_gs.trt.findings import Finding

#: Passes for what blocks, in order: what is dead goes first; then what hides operators is opened (calls, function bodies); then single operators and
#: types, which may sit in what was opened. Those of control flow run as part of lowering.
LEGALIZERS = ("cleanup", "lower-constants", "inline-functions", "expand-function-ops", "legalize-ops", "legalize-dtypes")

#: Operators that ``legalize-ops`` spells out in another order of additions, or by other functions.
_REORDERED = frozenset({"AveragePool", "BatchNormalization", "DFT", "Det", "LpPool", "ReduceSum", "Resize", "ScatterElements", "ScatterND"})
#: Differences that such rewrites may make.
_CLOSE = {"absolute": 1e-5, "relative": 1e-3}


@dataclass(frozen=True)
class Prepare(Pass):
    """Simplify, lower and legalize a model for TensorRT, to a fixpoint.

    Args:
        target: such as ``"rtx-1.7"``; None for the installed library, else the newest full TensorRT of the table.
        simplify: how to simplify.
        lower: how to lower control flow.
        rounds: the most rounds of legalizing.
    """

    name: ClassVar[str] = "prepare"
    target: str | None = None
    simplify: Simplify = field(default_factory=Simplify)
    lower: LowerControlFlow = field(default_factory=LowerControlFlow)
    rounds: int = 8

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place; what is left in the way is in ``report.shared["readiness"]``."""
        target = target_of(self.target)
        require_valid(graph)
        self._settle(graph, report)
        _open_functions(graph, report, target)
        for _ in range(self.rounds):
            found = check(graph, target, static=True)
            before = report.changed
            for legalizer in _chosen(found.blockers):
                legalizer.apply(graph, report)
            if report.changed == before:
                break
            shape_inference.infer(graph)
            self._settle(graph, report)
        report.shared["readiness"] = check(graph, target, static=True)

    def _settle(self, graph: Graph, report: Report) -> None:
        self.simplify.apply(graph, report)
        report.left.clear()
        self.lower.apply(graph, report)
        SliceByChoice().apply(graph, report)
        self.simplify.apply(graph, report)


def _open_functions(graph: Graph, report: Report, target: Target) -> None:
    """Inline the calls of functions in which something would block: inside a function types are not known, so a copy of the model is asked."""
    if not graph.functions:
        return
    probe = graph.copy()
    probe.functions[:] = [f.copy() for f in graph.functions]
    InlineFunctions()(probe)
    shape_inference.infer(probe)
    ops = tuple(dict.fromkeys(b.op for b in check(probe, target, static=True).blockers if b.op))
    if ops:
        InlineFunctions(where_needed=True, ops=ops).apply(graph, report)
        shape_inference.infer(graph)


def _chosen(blockers: list[Finding]) -> list[Pass]:
    """Give the passes that the blockers name, in order, set up for them."""
    named = {name for blocker in blockers for name in blocker.passes}
    if blockers:
        named |= {LegalizeOps.name, LegalizeDtypes.name}  # they look for more than a finding can name, and only at what TensorRT refuses
    chosen: list[Pass] = []
    for name in LEGALIZERS:
        if name not in named:
            continue
        if name == ExpandFunctionOps.name:
            chosen.append(_expansion(blockers))
            continue
        if name == InlineFunctions.name:
            chosen.append(InlineFunctions(where_needed=True))
            continue
        found = LegalizeOps if name == LegalizeOps.name else catalogue.find(name)
        if found is not None:
            chosen.append(found())
    return chosen


def _expansion(blockers: list[Finding]) -> ExpandFunctionOps:
    """Expand the operators that block, those with extra outputs only where these are used."""
    wanted = [b for b in blockers if ExpandFunctionOps.name in b.passes and b.op]
    extra = tuple(dict.fromkeys(b.op for b in wanted if b.id == "extra-outputs"))
    return ExpandFunctionOps(ops=tuple(dict.fromkeys(b.op for b in wanted if b.id != "extra-outputs")), only_extra_outputs=extra)


def prepare(graph: Graph, target: str | None = None, *, verify: bool = False, **options: Any) -> Report:
    """Make a model ready for TensorRT, in place.

    Args:
        graph: the graph.
        target: see ``Prepare``.
        verify: run the model before and after in ONNX Runtime, and compare: bit for bit, or closely where an operator had to be spelled out.
        options: fields of ``LowerControlFlow`` (``bind``, ``freeze``, ``max_nodes``, …) or of ``Simplify`` (``size_threshold``, …), and ``rounds``.

    Returns:
        What was rewritten, what was declined, what control flow is left, and in ``shared["readiness"]`` what still blocks.

    Raises:
        VerificationError: ``verify`` found that the results differ.
        GraphTypeError: it is no graph.
        GraphValueError: an option is unknown, or makes no sense.

    Example:
        >>> import numpy as np
        >>> from onnx_gs.ir import Graph, Node, Variable
        >>> x, y = Variable("x", np.float32, (4,)), Variable("y", np.int64, (1,))
        >>> graph = Graph([Node("ArgMax", attrs={"axis": 0}, inputs=[x], outputs=[y])], [x], [y], opset=18)
        >>> prepare(graph, "rtx-1.7").shared["readiness"].ready
        True
    """
    from onnx_gs.evaluate.verify import require_same

    if not isinstance(graph, Graph):
        raise GraphTypeError(f"a {type(graph).__name__} is no graph", fix="load the model: gs.load(path), or gs.import_onnx(model)")
    before = graph.copy() if verify else None
    report = Report(graph)
    _recipe(target, dict(options)).apply(graph, report)
    if before is not None:
        asked = options.get("fuse", False) or options.get("reorder", False)
        require_same(before, graph, **(_CLOSE if asked or reorders(report) else {}))
    return report


def reorders(report: Report) -> bool:
    """Say whether float arithmetic was spelled out anew, so that results may differ in their last digits."""
    return any(
        entry.pass_name == ExpandFunctionOps.name or (entry.pass_name == LegalizeOps.name and entry.op in _REORDERED) for entry in report.rewritten
    )


def _recipe(target: str | None, options: dict[str, Any]) -> Prepare:
    import dataclasses

    from onnx_gs.errors import GraphValueError

    lowering = {f.name for f in dataclasses.fields(LowerControlFlow)}
    simplifying = {f.name for f in dataclasses.fields(Simplify)}
    rounds = options.pop("rounds", Prepare.rounds)
    for name in options:
        if name not in lowering | simplifying:
            raise GraphValueError(f"'{name}' is no option of prepare", fix=f"one of {', '.join(sorted(lowering | simplifying | {'rounds'}))}")
    return Prepare(
        target,
        Simplify(**{k: v for k, v in options.items() if k in simplifying}),
        LowerControlFlow(**{k: v for k, v in options.items() if k in lowering}),
        rounds,
    )


def readiness_of(report: Report) -> Readiness:
    """Give what still blocks after ``prepare``."""
    found: Readiness = report.shared["readiness"]
    return found
