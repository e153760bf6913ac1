"""``If`` with cheap branches → both branches and a ``Where``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from onnx_gs.analysis import speculation
from onnx_gs.analysis.loops import surely_same, trusted_symbols
from onnx_gs.ir import Node, dtypes, edit, walk
from onnx_gs.ir.shapes import is_static, volume
from onnx_gs.passes.base import Pass
from onnx_gs.passes.emitter import Emitter
from onnx_gs.passes.normalize_if import BRANCHES

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Tensor
    from onnx_gs.ir.edit import Editor
    from onnx_gs.passes.base import Report

#: What ``Where`` selects in ONNX Runtime and in TensorRT alike; bool is selected by And and Or.
SELECTABLE = {dtypes.FLOAT, dtypes.FLOAT16, dtypes.DOUBLE, dtypes.INT32, dtypes.INT64}


@dataclass(frozen=True)
class IfToWhere(Pass):
    """Replace an ``If`` whose branches are cheap by both branches and a ``Where`` on the condition.

    Matches:   ``ai.onnx::If`` of at most ``max_nodes`` nodes in both branches together, of operators that cannot fail and cost little (elementwise,
               and moving data), whose outputs have surely equal shapes and one element type: float, double, float16, int32, int64 or bool.
    Rewrites:  both branches inline; each output by ``Where``, for bool by ``And``, ``Or`` and ``Not``.
    Requires:  opset 9. Each branch computes what it did, to the bit; the values that are not chosen are discarded.
    Declines:  a costly operator, or one that might fail where it did not run before; shapes that may differ (``Where`` would broadcast them).
    TensorRT:  takes both; predicated, cheap branches give about half the engine, and a model without ``If`` can be captured in a CUDA graph.

    Before::                                                         After::
        y = If (c) <then: { a = Neg (x) }, else: { b = Abs (x) }>        a = Neg (x)  b = Abs (x)  y = Where (c, a, b)

    Args:
        max_nodes: the most nodes in both branches together.
        max_elements: the most elements of an output, where that is known; beyond, computing both is no longer cheap.
    """

    name: ClassVar[str] = "if-to-where"
    max_nodes: int = 12
    max_elements: int = 1 << 22

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place and note what was done."""
        for root in (graph, *graph.functions):
            edit.rename_apart(root)
            while True:  # inner ones first: an If inside is in the way of the one around it
                ready = [(o, n) for o, n in walk.nodes(root, op="If") if not any(m.has_body for g in walk.nested(n) for m in g.nodes)]
                done = 0
                with edit.Editor(root) as editor:
                    for owner, node in ready:
                        problem = self._problem(editor, node)
                        if problem:
                            report.decline(owner, node, problem)
                            continue
                        report.rewrote(owner, node, f"{sum(len(node.attrs[b].nodes) for b in BRANCHES)} cheap nodes")
                        _replace(editor, owner, node)
                        done += 1
                if not done:
                    break

    def _problem(self, editor: Editor, node: Node) -> str:
        if editor.root.opset < 9:
            return f"Where needs opset 9, not {editor.root.opset}"
        bodies = [node.attrs[b] for b in BRANCHES if b in node.attrs]
        if len(bodies) != 2 or any(len(b.outputs) < len(node.outputs) for b in bodies):
            return "the branches have another number of outputs than the node"
        trusted = trusted_symbols(editor.root)
        size = sum(len(b.nodes) for b in bodies)
        if size > self.max_nodes:
            return f"the branches have {size} nodes, more than {self.max_nodes}"
        for body in bodies:
            for inner in body.nodes:
                problem = speculation.hazard(inner, editor.root.opset, trusted)
                if problem:
                    return problem
        for out, a, b in zip(node.outputs, *(b.outputs for b in bodies)):
            if out.name and editor.is_used(out):
                problem = self._mismatch(out, a, b, trusted)
                if problem:
                    return problem
        return ""

    def _mismatch(self, out: Tensor, a: Tensor, b: Tensor, trusted: set[str]) -> str:
        if any(t.type != "tensor_type" for t in (a, b, out)):
            return f"output '{out.name}' is no tensor"
        first, second = dtypes.of(a), dtypes.of(b)
        if first is None or first is not second:
            return f"output '{out.name}' is {_either(*(t.name if t else 'of unknown type' for t in (first, second)))}"
        if first is not dtypes.BOOL and first not in SELECTABLE:
            return f"output '{out.name}' is {first.name}, which Where does not select everywhere"
        ranked = a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape)
        if not ranked or not all(surely_same(d, e, trusted) for d, e in zip(a.shape, b.shape)):
            return f"output '{out.name}' is {_either(_shown(a.shape), _shown(b.shape))}, so the branches may differ in shape"
        if is_static(a.shape) and volume(a.shape) > self.max_elements:
            return f"output '{out.name}' has {volume(a.shape)} elements"
        return ""


def _either(then: str, other: str) -> str:
    return f"{then} in both branches" if then == other else f"{then} or {other}"


def _shown(shape: object) -> str:
    return "of unknown rank" if shape is None else str(list(shape))  # type: ignore[call-overload]


def _replace(editor: Editor, owner: Graph, node: Node) -> None:
    then, other = (node.attrs[b] for b in BRANCHES)
    outputs = [(a, b) for a, b in zip(then.outputs, other.outputs)]
    nodes = [*editor.take_body(node, then), *editor.take_body(node, other)]
    emit = Emitter(editor.names, editor.root.opset, node.name or "if")
    cond = node.inputs[0]
    if cond.shape is None or len(cond.shape) != 0:
        cond = emit.reshape(cond, emit.constant([], dtypes.INT64), [])
    negated: Tensor | None = None
    results: list[Tensor | None] = []
    for out, (a, b) in zip(node.outputs, outputs):
        if not out.name or not editor.is_used(out):
            results.append(None)
        elif a is b:
            results.append(a)
        elif dtypes.of(a) is dtypes.BOOL:
            negated = emit.elementwise("Not", cond) if negated is None else negated
            results.append(emit.elementwise("Or", emit.elementwise("And", cond, a), emit.elementwise("And", negated, b)))
        else:
            results.append(emit.op("Where", cond, a, b, dtype=a.dtype, shape=list(a.shape)))
    editor.replace(owner, node, [*nodes, *emit.nodes], results)
