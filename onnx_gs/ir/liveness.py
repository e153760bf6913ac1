"""Liveness: what the outputs of a graph depend on."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from onnx_gs.ir import scopes, walk

if TYPE_CHECKING:
    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node
    from onnx_gs.ir.tensor import Tensor


def live_nodes(graph: Graph, captured: dict[int, list[Tensor]] | None = None) -> list[Node]:
    """List the graph's own nodes that its outputs depend on, in the graph's order; what a body captures is depended on.

    Args:
        graph: the graph; its inputs end the search, even where a node produces them.
        captured: what nodes' bodies capture, by node id; computed when left out.
    """
    captured = scopes.all_captures(graph) if captured is None else captured
    swept = _sweep(graph, captured)
    if swept is not None:
        return swept
    producers: dict[int, Node] = {}
    for node in graph.nodes:
        for t in node._outputs:
            if t._name:
                producers[id(t)] = node
    for t in graph.inputs:
        producers.pop(id(t), None)
    live: set[int] = set()
    pending = [producers[id(t)] for t in graph.outputs if id(t) in producers]
    while pending:
        node = pending.pop()
        if id(node) in live:
            continue
        live.add(id(node))
        for t in node._inputs:
            producer = producers.get(id(t))
            if producer is not None and id(producer) not in live:
                pending.append(producer)
        if node._attrs:
            for t in captured.get(id(node), ()):
                producer = producers.get(id(t))
                if producer is not None and id(producer) not in live:
                    pending.append(producer)
    return [node for node in graph.nodes if id(node) in live]


def _sweep(graph: Graph, captured: dict[int, list[Tensor]]) -> list[Node] | None:
    """Find the live nodes of a sorted graph in one pass from its end; None where an input is produced too or the order turns out wrong."""
    if any(t._inputs for t in graph.inputs):
        return None
    needed = set(map(id, graph.outputs))
    live: list[Node] = []
    dead: list[Node] = []
    for node in reversed(graph.nodes):
        for t in node._outputs:
            if id(t) in needed and t._name:
                break
        else:
            dead.append(node)
            continue
        live.append(node)
        needed.update(map(id, node._inputs))
        if node._attrs and id(node) in captured:
            needed.update(map(id, captured[id(node)]))
    for node in dead:
        for t in node._outputs:
            if id(t) in needed and t._name:
                return None
    live.reverse()
    return live


def detach(nodes: list[Node]) -> None:
    """Unlink nodes, and everything in their bodies, from all their tensors: in bulk, one pass a list.

    A list that only loses nodes of this set is rebuilt once, however many it loses.
    """
    gone: dict[int, Node] = {}
    for node in nodes:
        gone[id(node)] = node
        for body in walk.nested(node) if node._attrs else ():
            gone.update((id(inner), inner) for inner in body.nodes)
    read: dict[int, Tensor] = {}
    made: dict[int, Tensor] = {}
    for node in gone.values():
        for t in node._inputs:
            read[id(t)] = t
        for t in node._outputs:
            made[id(t)] = t
    for links in chain([t._outputs for t in read.values()], [t._inputs for t in made.values()]):
        if len(links) == 1 and id(links[0]) in gone:  # the common case
            list.clear(links)
        elif links:
            list.__setitem__(links, slice(None), [n for n in links if id(n) not in gone])
    for node in gone.values():
        list.clear(node._inputs)
        list.clear(node._outputs)
