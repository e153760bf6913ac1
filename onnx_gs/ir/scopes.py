"""Scopes: what a body captures from outside, and which graph owns a weight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.ir import walk
from onnx_gs.ir.tensor import Constant

if TYPE_CHECKING:
    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node
    from onnx_gs.ir.tensor import Tensor


def locals_of(graph: Graph) -> set[int]:
    """Give the ids of the tensors that a graph itself defines: inputs and its nodes' outputs."""
    found = {id(t) for t in graph.inputs}
    for node in graph.nodes:
        found.update(id(t) for t in node._outputs)
    return found


def defined_in(root: Graph) -> set[int]:
    """Give the ids of the tensors that a graph and the bodies in it define."""
    return {key for graph in walk.graphs(root) for key in locals_of(graph)}


def captures(body: Graph, *, constants: bool = True) -> list[Tensor]:
    """List the outer tensors that a body uses, in order of first use, at any depth, those that it returns directly included.

    Args:
        body: the body of a node.
        constants: also weights; a weight has no producer, so one that only this body uses is listed too.

    Example:
        >>> from onnx_gs.ir import Graph, Node, Variable
        >>> outer, y = Variable("outer"), Variable("y")
        >>> [t.name for t in captures(Graph([Node("Neg", inputs=[outer], outputs=[y])], outputs=[y]))]
        ['outer']
    """
    defined = defined_in(body)
    used: dict[int, Tensor] = {}
    for graph in walk.graphs(body):
        for node in graph.nodes:
            for t in node._inputs:
                if id(t) not in defined and t._name:
                    used.setdefault(id(t), t)
        for t in graph.outputs:
            if id(t) not in defined and t._name:
                used.setdefault(id(t), t)
    return [t for t in used.values() if constants or not isinstance(t, Constant)]


def node_captures(node: Node, *, constants: bool = True) -> list[Tensor]:
    """List the outer tensors that a node's bodies use, each once."""
    found: dict[int, Tensor] = {}
    for body in walk.bodies(node):
        for t in captures(body, constants=constants):
            found.setdefault(id(t), t)
    return list(found.values())


def all_captures(root: Graph) -> dict[int, list[Tensor]]:
    """Map the id of every node with bodies, at any depth below ``root``, to what its bodies capture from outside the node; linear in the model.

    Weights are included.
    """
    order = list(walk.graphs(root))
    if len(order) == 1:
        return {}
    found: dict[int, list[Tensor]] = {}
    free: dict[int, dict[int, Tensor]] = {}  # per graph: what it takes from outside itself
    for graph in reversed(order):  # inner before outer
        defined = locals_of(graph)
        used: dict[int, Tensor] = {}
        for node in graph.nodes:
            for t in node._inputs:
                if id(t) not in defined and t._name:
                    used.setdefault(id(t), t)
            if node._attrs:
                taken: dict[int, Tensor] = {}
                for body in walk.bodies(node):
                    taken.update((k, t) for k, t in free.get(id(body), {}).items() if k not in taken)
                if taken:
                    found[id(node)] = list(taken.values())
                    for k, t in taken.items():
                        if k not in defined:
                            used.setdefault(k, t)
        for t in graph.outputs:
            if id(t) not in defined and t._name:
                used.setdefault(id(t), t)
        free[id(graph)] = used
    return found


def owners(root: Graph) -> dict[int, Graph]:
    """Map the id of every weight used below ``root`` to the graph that stores it.

    That is the graph whose import record lists it, else the innermost graph that encloses every use.
    """
    depth: dict[int, int] = {}
    parent: dict[int, Graph | None] = {id(root): None}
    depth[id(root)] = 0
    order = list(walk.graphs(root))
    for graph in order:
        for node in graph.nodes:
            if node._attrs:
                for body in walk.bodies(node):
                    parent.setdefault(id(body), graph)
                    depth.setdefault(id(body), depth[id(graph)] + 1)

    def common(a: Graph, b: Graph) -> Graph:
        while a is not b:
            if depth[id(a)] < depth[id(b)]:
                a, b = b, a
            a = parent[id(a)] or root
        return a

    found: dict[int, Graph] = {}
    recorded: dict[int, Graph] = {}
    for graph in order:
        if graph._record is not None:
            for t in graph._record.initializers:
                recorded.setdefault(id(t), graph)
        for tensors in ([graph.inputs], (node._inputs for node in graph.nodes), [graph.outputs]):
            for group in tensors:
                for t in group:
                    if isinstance(t, Constant):
                        present = found.get(id(t))
                        found[id(t)] = graph if present is None else present if present is graph else common(present, graph)
    for key, graph in found.items():
        if key in recorded and common(recorded[key], graph) is recorded[key]:
            found[key] = recorded[key]
    return found


def output_uses(root: Graph, *, functions: bool = True) -> dict[int, list[Graph]]:
    """Map the id of every tensor that some graph lists as an output to those graphs."""
    found: dict[int, list[Graph]] = {}
    for graph in walk.graphs(root, functions=functions):
        for t in graph.outputs:
            holders = found.setdefault(id(t), [])
            if not holders or holders[-1] is not graph:
                holders.append(graph)
    return found


def holders(root: Graph, *, functions: bool = False) -> dict[int, Graph]:
    """Map the id of every node, at any depth, to the graph that holds it."""
    return {id(node): graph for graph in walk.graphs(root, functions=functions) for node in graph.nodes}
