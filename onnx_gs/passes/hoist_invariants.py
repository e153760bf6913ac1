"""What every trip computes alike, once, before the loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from onnx_gs.analysis import speculation, trip_counts
from onnx_gs.analysis.loops import trusted_symbols
from onnx_gs.ir import Node, edit, walk
from onnx_gs.ops import traits
from onnx_gs.passes.base import Pass
from onnx_gs.passes.emitter import Emitter

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Tensor
    from onnx_gs.ir.edit import Editor
    from onnx_gs.passes.base import Report


@dataclass(frozen=True)
class HoistInvariants(Pass):
    """Move the nodes of a ``Loop`` or ``Scan`` body that compute the same in every trip in front of the loop.

    Matches:   a node of the body whose inputs all come from outside, or from nodes that move too.
    Rewrites:  the node goes before the loop, and the body captures its result; inner loops first, so that it moves as far out as it can.
    Requires:  a deterministic operator without bodies. Values stay to the bit.
    Declines:  a node that might fail, or is costly, where the loop may make no trip at all.
    TensorRT:  takes both; the engine computes it once.

    Before::                                                        After::
        y = Loop (m, c, x) <body = b (i, ci, s) => (co, so) {           e = Exp (w)
            e = Exp (w)  so = Add (s, e) ... }>                         y = Loop (m, c, x) <body = b (i, ci, s) => (co, so) { so = Add (s, e) ... }>
    """

    name: ClassVar[str] = "hoist-invariants"

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place and note what was done."""
        for root in (graph, *graph.functions):
            edit.rename_apart(root)
            with edit.Editor(root) as editor:
                for owner, node in reversed(list(walk.nodes(root))):  # inner ones first
                    if node.op in {"Loop", "Scan"} and node.is_onnx and "body" in node.attrs:
                        _hoist(editor, owner, node, report, root.opset)


def _hoist(editor: Editor, owner: Graph, loop: Node, report: Report, opset: int) -> None:
    body: Graph = loop.attrs["body"]
    count = trip_counts.of_loop(loop) if loop.op == "Loop" else trip_counts.of_scan(loop, opset)
    runs = bool(count.exact)
    nodes = editor.final_nodes(body)
    stays = {id(t) for t in body.inputs} | {id(t) for n in nodes for t in n.outputs if t.name}
    moving: list[Node] = []
    for node in nodes:
        if any(id(t) in stays for t in node.inputs) or not _movable(node):
            continue
        hazard = "" if runs else speculation.hazard(node, opset, trusted_symbols(editor.root))
        if hazard:
            report.decline(body, node, f"{hazard}, and the loop may make no trip")
            continue
        moving.append(node)
        stays.difference_update(id(t) for t in node.outputs)
    if not moving:
        return
    report.rewrote(owner, loop, f"{len(moving)} nodes that are the same each trip")
    returned = {id(t): t for t in body.outputs}
    for node in moving:
        for t in list(node.outputs):
            if id(t) in returned:
                _return_copy(editor, body, t)
        moved = node._twin()
        inputs, outputs = list(node.inputs), list(node.outputs)
        editor.remove(body, node)
        moved.inputs[:] = inputs
        moved.outputs[:] = outputs
        editor.insert_before(owner, loop, [moved])


def _movable(n: Node) -> bool:
    if n.op == "Identity" and any(True for _ in n.outputs[0].inputs) and not n.outputs[0].outputs:
        return False  # it only lets the body return an outer tensor
    return n.is_onnx and not n.has_body and not traits.is_random(n) and n.op not in traits.STATEFUL and not traits.trains(n)


def _return_copy(editor: Editor, body: Graph, t: Tensor) -> None:
    """Let a body that returns a tensor return an Identity of it, as the tensor moves out."""
    emit = Emitter(editor.names, editor.root.opset, t.name)
    copy = emit.identity(t)
    editor.append(body, emit.nodes)
    editor.set_outputs(body, [copy if o is t else o for o in body.outputs])
