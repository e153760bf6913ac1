"""Walking a model: its graphs, nodes and tensors, bodies included. The only recursion over graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.errors import GraphError
from onnx_gs.ir.node import ONNX_DOMAINS, with_bodies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node
    from onnx_gs.ir.tensor import Tensor


def graphs(graph: Graph, *, functions: bool = False) -> Iterator[Graph]:
    """Give a graph and every body inside it, outer before inner, each object once.

    Args:
        graph: where to start.
        functions: also the model's functions and the bodies inside them, after the graph's own.
    """
    seen: set[int] = set()
    roots = [graph, *graph.functions] if functions else [graph]
    for root in roots:
        pending = [root]
        while pending:
            current = pending.pop()
            if id(current) in seen:
                continue
            seen.add(id(current))
            yield current
            inner = [body for node in with_bodies(current.nodes) for _, body in node.bodies()]
            pending.extend(reversed(inner))


def nodes(graph: Graph, op: str | None = None, domain: str | None = "", *, functions: bool = False) -> Iterator[tuple[Graph, Node]]:
    """Give every node with the graph that holds it, bodies included; each node list is a snapshot, so editing meanwhile is safe.

    Args:
        graph: where to start.
        op: only nodes of this operator.
        domain: the operator's domain where ``op`` is given; ``""`` means ONNX's own, whichever way it is spelled.
        functions: also the nodes of the model's functions.
    """
    for owner in list(graphs(graph, functions=functions)):
        for node in list(owner.nodes):
            if op is None or (node.op == op and ((node.domain in ONNX_DOMAINS) if domain in ONNX_DOMAINS else node.domain == domain)):
                yield owner, node


def bodies(node: Node) -> list[Graph]:
    """List the graphs that a node's attributes hold."""
    return [body for _, body in node.bodies()]


def nested(node: Node) -> Iterator[Graph]:
    """Give the bodies of a node and all bodies inside them, outer before inner."""
    for body in bodies(node):
        yield from graphs(body)


def tensors(graph: Graph) -> Iterator[Tensor]:
    """Give the tensors that a graph itself touches, each object once, empty ones left out: inputs, nodes' inputs and outputs, outputs."""
    seen: set[int] = set()

    def fresh(found: list[Tensor]) -> Iterator[Tensor]:
        for tensor in found:
            if id(tensor) not in seen and tensor._name:
                seen.add(id(tensor))
                yield tensor

    yield from fresh(graph.inputs)
    for node in list(graph.nodes):
        yield from fresh(node._inputs)
        yield from fresh(node._outputs)
    yield from fresh(graph.outputs)


def depth(graph: Graph) -> int:
    """Count how deep bodies are nested in a graph: 0 where no node has one.

    Raises:
        GraphError: a body holds itself.
    """
    deepest = 0
    done: dict[int, int] = {}  # id of a graph -> how deep bodies are nested in it
    above: set[int] = set()
    pending: list[tuple[Graph, list[Graph] | None]] = [(graph, None)]
    while pending:
        current, inner = pending.pop()
        if inner is not None:
            above.discard(id(current))
            done[id(current)] = deepest = max((done[id(body)] + 1 for body in inner), default=0)
            continue
        if id(current) in done:
            continue
        if id(current) in above:
            raise GraphError("a body holds itself", where=f"graph '{current.name}'", fix="give the inner node a copy of the body")
        above.add(id(current))
        found = [body for node in with_bodies(current.nodes) for _, body in node.bodies()]
        pending.append((current, found))
        pending.extend((body, None) for body in found)
    return deepest


def parents(root: Graph, *, functions: bool = False) -> dict[int, tuple[Graph, Node, str] | None]:
    """Map the ``id`` of every graph to the graph and node that hold it and the attribute's name; None for roots."""
    found: dict[int, tuple[Graph, Node, str] | None] = {id(root): None}
    if functions:
        found.update({id(f): None for f in root.functions})
    for owner in graphs(root, functions=functions):
        for node in with_bodies(owner.nodes):
            for name, body in node.bodies():
                found.setdefault(id(body), (owner, node, name))
    return found
