"""``If`` branches of different rank, where nobody minds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from onnx_gs.analysis import constness
from onnx_gs.ir import Node, Variable, edit, walk
from onnx_gs.ops import traits
from onnx_gs.passes.base import Pass
from onnx_gs.passes.emitter import Emitter
from onnx_gs.passes.normalize_if import BRANCHES

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Tensor
    from onnx_gs.ir.edit import Editor
    from onnx_gs.passes.base import Report


@dataclass(frozen=True)
class EqualizeRanks(Pass):
    """Give the branches of an ``If`` outputs of one rank where every reader is indifferent to leading dims of 1.

    Matches:   an output of ``ai.onnx::If`` whose branches differ in rank, and which is read only by operators that broadcast against something of at
               least the higher rank, reduce everything, or reshape to a constant shape.
    Rewrites:  leading dims of 1 in the branch of lower rank.
    Requires:  known ranks. Values stay to the bit.
    Declines:  a reader that would see the difference, or the model's output; with the name of what decides.
    TensorRT:  a conditional's outputs must have equal ranks.

    Before::                                                  After::
        v = If (c) <then: { t = Identity (scalar) },              v = If (c) <then: { t = Unsqueeze (Identity (scalar), [0, 1]) },
                    else: { f = Relu (x) }>                                   else: { f = Relu (x) }>
        y = Add (v, x)                                            y = Add (v, x)
    """

    name: ClassVar[str] = "equalize-ranks"

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place and note what was done."""
        for root in (graph, *graph.functions):
            edit.rename_apart(root)
            with edit.Editor(root) as editor:
                for owner, node in walk.nodes(root, op="If"):
                    if all(b in node.attrs for b in BRANCHES):
                        self._outputs(editor, owner, node, report)

    def _outputs(self, editor: Editor, owner: Graph, node: Node, report: Report) -> None:
        bodies = [node.attrs[b] for b in BRANCHES]
        for at, (out, a, b) in enumerate(zip(list(node.outputs), *(body.outputs for body in bodies))):
            if a.shape is None or b.shape is None or len(a.shape) == len(b.shape) or not editor.is_used(out):
                continue
            high = max(len(a.shape), len(b.shape))
            problem = _minding(editor, out, high)
            if problem:
                ranks = f"rank {len(a.shape)} or {len(b.shape)}, as '{node.inputs[0].name}' decides"
                report.decline(owner, node, f"output '{out.name}' has {ranks}, and {problem}")
                continue
            report.rewrote(owner, node, f"output '{out.name}' has rank {high} either way")
            for body, t in zip(bodies, (a, b)):
                missing = high - len(t.shape)
                if missing:
                    emit = Emitter(editor.names, editor.root.opset, t.name)
                    padded = emit.unsqueeze(t, list(range(missing)))
                    editor.append(body, emit.nodes)
                    editor.set_outputs(body, [padded if k == at else x for k, x in enumerate(body.outputs)])
            if isinstance(out, Variable):
                out.shape = [None] * high


def _minding(editor: Editor, out: Tensor, high: int) -> str:
    """Tell who would see leading dims of 1; empty where nobody would."""
    if editor.listed_by(out):
        return "it is returned as it is"
    for reader in out.outputs:
        if not reader.is_onnx or not _indifferent(reader, out, high):
            return f"'{reader.name or reader.op}' ({reader.op}) would see the difference"
    return ""


def _indifferent(reader: Node, out: Tensor, high: int) -> bool:
    if reader.op in traits.BROADCASTING and reader.op not in {"Clip", "PRelu"}:
        others = [t.shape for t in reader.inputs if t is not out and t.name]
        return any(s is not None and len(s) >= high for s in others)
    if reader.op.startswith("Reduce"):
        axes = reader.attrs.get("axes") or (len(reader.inputs) > 1 and reader.inputs[1].name)
        return not axes and not reader.attrs.get("keepdims", 1) and not reader.attrs.get("noop_with_empty_axes", 0)
    if reader.op == "Reshape" and reader.inputs[0] is out:
        target = constness.vector(reader.inputs[1])
        return target is not None and (0 not in target or bool(reader.attrs.get("allowzero", 0)))
    return reader.op == "Size"
