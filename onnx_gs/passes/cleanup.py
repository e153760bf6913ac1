"""Drop what the outputs do not need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from onnx_gs.ir import liveness, scopes, walk
from onnx_gs.ir.bulk import collector_paused
from onnx_gs.ir.edges import Edges
from onnx_gs.ir.function import Function
from onnx_gs.ir.join import join_names
from onnx_gs.ir.node import with_bodies
from onnx_gs.ir.tensor import Constant, Variable
from onnx_gs.ops import schema
from onnx_gs.passes.base import Pass, Report

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node


@collector_paused()
def cleanup(
    graph: Graph,
    *,
    remove_unused_node_outputs: bool = False,
    recurse_subgraphs: bool = True,
    remove_unused_graph_inputs: bool = False,
    recurse_functions: bool = True,
) -> list[Node]:
    """Drop dead nodes in place; see ``Graph.cleanup``. Give the nodes of the graphs that went, unlinked."""
    edges: Edges | None = Edges(graph)
    if join_names(graph, edges) or any(t._inputs for t in graph.inputs):
        edges = None
    removed: list[Node] = []
    for root in [graph, *graph.functions] if recurse_functions else [graph]:
        own = edges if root is graph else None
        removed.extend(_clean_root(root, outputs=remove_unused_node_outputs, bodies=recurse_subgraphs, edges=own))
    if remove_unused_graph_inputs and not isinstance(graph, Function):
        used = {id(t) for t in graph.outputs}
        used.update(id(t) for body in walk.graphs(graph) for t in body.outputs)
        graph.inputs = [t for t in graph.inputs if t._outputs or id(t) in used]
    return removed


def drop_dead(graph: Graph, *, has_bodies: bool | None = None) -> list[Node]:
    """Drop dead nodes of a graph whose names are joined already; give those that went.

    Args:
        graph: the graph.
        has_bodies: whether a node of it, or of a function, has a body; None where that is not known.
    """
    return [node for root in (graph, *graph.functions) for node in _clean_root(root, outputs=False, bodies=True, has_bodies=has_bodies)]


def _clean_root(root: Graph, *, outputs: bool, bodies: bool, edges: Edges | None = None, has_bodies: bool | None = None) -> list[Node]:
    removed: list[Node] = []
    for t in root.inputs:
        if t._inputs:
            t._inputs.clear()
    if has_bodies is None:
        has_bodies = bool(with_bodies(root.nodes))
    captured = scopes.all_captures(root) if has_bodies else {}
    removed.extend(liveness.drop_dead(root, captured, edges))
    bodies = bodies and has_bodies
    if bodies:
        # Outer graphs first: what only a dead branch captured is dead too, once the branch is.
        for body in list(walk.graphs(root))[1:]:
            removed.extend(liveness.drop_dead(body, captured))
        if removed:
            removed.extend(_settle(root))
    if outputs:
        returned = {id(t) for body in walk.graphs(root) for t in body.outputs}
        for body in walk.graphs(root) if bodies else (root,):
            for node in body.nodes:
                _drop_outputs(node, returned, body.opset)
    for body in walk.graphs(root) if bodies else (root,):
        if body._record is not None:
            body._record.drop_unused()
    return removed


def _settle(root: Graph) -> list[Node]:
    """Clean again while a dead node in a body was the last reader of something outside."""
    removed: list[Node] = []
    while True:
        captured = scopes.all_captures(root)
        gone = [node for body in walk.graphs(root) for node in liveness.drop_dead(body, captured)]
        if not gone:
            return removed
        removed.extend(gone)


def _drop_outputs(node: Node, returned: set[int], opset: int) -> None:
    """Make unused outputs empty, and take empty ones off the end; outputs whose number or presence has a meaning stay."""
    for position, t in enumerate(list(node._outputs)):
        if t._name and not t._outputs and id(t) not in returned and not isinstance(t, Constant) and schema.may_omit_output(node, position, opset):
            node._outputs[position] = Variable.empty()
    while node._outputs and node._outputs[-1].is_empty() and schema.may_omit_output(node, len(node._outputs) - 1, opset):
        node._outputs.pop()


@dataclass(frozen=True)
class Cleanup(Pass):
    """Drop nodes that no output depends on, in the graph, its bodies and functions.

    Matches:   a node that the outputs of its graph do not depend on, captures by bodies included.
    Rewrites:  the node goes, unlinked from its tensors. With ``unused_outputs``, optional outputs that nothing reads become empty.
    Declines:  nothing. Inputs and outputs of the graph, of bodies and of functions always stay.
    """

    name: ClassVar[str] = "cleanup"
    unused_outputs: bool = False

    def run(self, graph: Graph, report: Report) -> None:
        """Drop what is dead."""
        for node in cleanup(graph, remove_unused_node_outputs=self.unused_outputs):
            report.rewrote(graph, node, "nothing depends on it")
