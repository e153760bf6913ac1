"""What a body computes though it stands outside already."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from onnx_gs.ir import edit, walk
from onnx_gs.ops import traits
from onnx_gs.passes.base import Pass
from onnx_gs.passes.hoist_common import input_key
from onnx_gs.passes.share_subexpressions import attribute_key

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node
    from onnx_gs.ir.edit import Editor
    from onnx_gs.passes.base import Report


@dataclass(frozen=True)
class ShareOuter(Pass):
    """Let a body use what a node before it, in a graph around it, computes already.

    Matches:   a node in a body, and one of the same operator, attributes and inputs in an enclosing graph, in front of the node that holds the body.
    Rewrites:  the body captures the outer node's outputs; its own node goes.
    Requires:  deterministic operators without bodies. Values stay to the bit.
    Declines:  nothing; what is not there twice stays.
    TensorRT:  takes both; fewer layers are inside loops and conditionals.

    Before::                                                             After::
        r = Exp (x)  y = If (c) <then: { s = Exp (x)  a = Neg (s) }, …>      r = Exp (x)  y = If (c) <then: { a = Neg (r) }, …>
    """

    name: ClassVar[str] = "share-outer"

    def run(self, graph: Graph, report: Report) -> None:
        """Rewrite the graph in place and note what was done."""
        for root in (graph, *graph.functions):
            if any(node.has_body for node in root.nodes):
                edit.rename_apart(root)
                with edit.Editor(root) as editor:
                    _share(editor, root, ChainMap(), {}, report)


def _share(editor: Editor, graph: Graph, known: ChainMap[Any, Node], stands: dict[int, int], report: Report) -> None:
    if not known.maps[0] and len(known.maps) == 1 and not any(n.has_body for n in graph.nodes):
        return
    inner = known.new_child()
    for node in list(graph.nodes):
        if node.has_body:
            for body in walk.bodies(node):
                _share(editor, body, inner, stands, report)
            continue
        key = _key(node, stands)
        if key is None:
            continue
        twin = known.get(key)
        if twin is None or [bool(t.name) for t in twin.outputs] != [bool(t.name) for t in node.outputs]:
            inner.maps[0].setdefault(key, node)
            continue
        report.rewrote(graph, node, f"'{twin.name or twin.op}' outside computes it")
        stands.update((id(t), id(u)) for t, u in zip(node.outputs, twin.outputs))
        editor.replace(graph, node, [], list(twin.outputs))


def _key(node: Node, stands: dict[int, int]) -> Any:
    if not node.is_onnx or node.op in {"Identity", "Constant"} or traits.is_random(node) or node.op in traits.STATEFUL or traits.trains(node):
        return None
    attributes = attribute_key(node)
    return None if attributes is None else (node.op, attributes, tuple(input_key(t, stands.get(id(t), id(t))) for t in node.inputs))
