"""Operators that ONNX defines by other operators, spelled out by their definition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from onnx_gs.analysis import shape_inference
from onnx_gs.ir import edit, walk
from onnx_gs.ir.instantiate import Body
from onnx_gs.ops import function_bodies, schema
from onnx_gs.passes.base import Pass
from onnx_gs.passes.inline_functions import splice, version_clash

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node
    from onnx_gs.passes.base import Report


_MOST_LEVELS = 8  # bodies inside bodies; the specification has three


@dataclass(frozen=True)
class ExpandFunctionOps(Pass):
    """Replace operators by the function body with which the ONNX specification defines them.

    Matches:   operators of ``ops`` whose definition has a body at the model's opset, also one that depends on attributes and input types.
    Rewrites:  the body's nodes in place of the node; operators of ``ops`` inside are expanded in turn.
    Requires:  known element types of the inputs, where the body depends on them.
    Declines:  no body for this node; a body whose operators mean something else at the model's opset; an omitted output that is returned.
    TensorRT:  lacks or half-supports some operators with a body. What it takes whole (``RMSNormalization``) stays whole: expanded
               it would not build. The result may differ in the last bits from a runtime's own kernel, as the arithmetic is spelled out.

    Before::                                             After::
        y = ThresholdedRelu <alpha = 1.0> (x)                a = Constant <value = float {1.0}> ()
                                                             z = CastLike (0, x)
                                                             y = Where (x > CastLike (a, x), x, z)

    Args:
        ops: the operators to expand.
        only_extra_outputs: operators that are expanded only where a second output is used.
    """

    name: ClassVar[str] = "expand-function-ops"

    ops: tuple[str, ...] = ()
    only_extra_outputs: tuple[str, ...] = ()

    def run(self, graph: Graph, report: Report) -> None:
        """Expand in the graph, its bodies and the functions of its model."""
        wanted = {*self.ops, *self.only_extra_outputs}
        if not any(n.op in wanted and n.is_onnx for _, n in walk.nodes(graph, functions=True)):
            return
        declined: set[int] = set()
        shape_inference.infer(graph)  # some bodies depend on the types of inputs
        for _ in range(_MOST_LEVELS):
            if not any(self._run_once(root, type(graph), wanted, declined, report) for root in [graph, *graph.functions]):
                break
            shape_inference.infer(graph)  # bodies inside may depend on the types of what is new

    def _run_once(self, root: Graph, kind: type[Graph], wanted: set[str], declined: set[int], report: Report) -> bool:
        """Expand the nodes that are there now; say whether any was."""
        present = [(owner, node) for owner, node in walk.nodes(root) if node.is_onnx and node.op in wanted and id(node) not in declined]
        if not present:
            return False
        edit.rename_apart(root)
        before = report.changed
        with edit.Editor(root) as editor:
            for owner, node in present:
                if node.op not in self.ops and not any(editor.is_used(t) for t in node.outputs[1:] if t.name):
                    continue
                if not _expand(editor, root, owner, node, kind, report):
                    declined.add(id(node))
        return report.changed > before


def _expand(editor: edit.Editor, root: Graph, owner: Graph, node: Node, kind: type[Graph], report: Report) -> list[Node]:
    known = schema.of(owner, node)
    if known is None or not known.has_function_body:
        report.decline(owner, node, "ONNX defines the operator by no function body at this opset")
        return []
    function = function_bodies.body(owner, node, kind)
    if function is None:
        report.decline(owner, node, "ONNX gives no function body for these attributes and input types")
        return []
    why = version_clash(root, {}, function)
    if why is not None:
        report.decline(owner, node, why)
        return []
    present = [k < len(node.inputs) and not node.inputs[k].is_empty() for k in range(len(function.inputs))]
    missing = {id(t) for t, given in zip(function.inputs, present) if not given}
    if len(node.outputs) > len(function.outputs) or any(id(t) in missing for t in function.outputs):
        report.decline(owner, node, "the function body has fewer outputs than the node")
        return []
    edit.rename_apart(function)
    report.rewrote(owner, node, "expanded")
    return splice(editor, root, owner, node, function, Body(function))
