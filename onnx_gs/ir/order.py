"""Topological order: stable, linear, without recursion over nodes."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from onnx_gs.errors import GraphError
from onnx_gs.ir import scopes, walk
from onnx_gs.ir.show import node_label

if TYPE_CHECKING:
    from onnx_gs.ir.function import Function
    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node
    from onnx_gs.ir.tensor import Tensor


def sort_nodes(graph: Graph, captured: dict[int, list[Tensor]] | None = None) -> None:
    """Put a graph's own nodes in order: a sorted graph keeps its order, else the earliest ready node in the old order comes first.

    Args:
        graph: sorted in place; ``graph.nodes`` becomes a new list when the order changes.
        captured: what nodes' bodies capture, by node id; computed when left out.

    Raises:
        GraphError: the nodes form a cycle, or an input of a node is produced by a node that is not in the graph.
    """
    nodes = graph.nodes
    captured = scopes.all_captures(graph) if captured is None else captured
    made_at: dict[int, int] = {}
    for index, node in enumerate(nodes):
        for t in node._outputs:
            if t._name:
                made_at[id(t)] = index
    if _is_sorted(nodes, made_at, captured):
        return
    waiting = [0] * len(nodes)
    readers: list[list[int]] = [[] for _ in nodes]
    for index, node in enumerate(nodes):
        read = captured.get(id(node))
        for t in [*node._inputs, *read] if read else node._inputs:
            producer = made_at.get(id(t))
            if producer is not None:
                waiting[index] += 1
                readers[producer].append(index)
    ready = [index for index, count in enumerate(waiting) if count == 0]
    heapify(ready)
    order: list[Node] = []
    while ready:
        index = heappop(ready)
        order.append(nodes[index])
        for reader in readers[index]:
            waiting[reader] -= 1
            if waiting[reader] == 0:
                heappush(ready, reader)
    if len(order) != len(nodes):
        raise _cycle(graph, waiting, readers)
    graph.nodes = order


def _is_sorted(nodes: list[Node], made_at: dict[int, int], captured: dict[int, list[Tensor]]) -> bool:
    get = made_at.get
    for index, node in enumerate(nodes):
        for t in node._inputs:
            if get(id(t), -1) >= index:
                return False
        if node._attrs:
            for t in captured.get(id(node), ()):
                if get(id(t), -1) >= index:
                    return False
    return True


def _cycle(graph: Graph, waiting: list[int], readers: list[list[int]]) -> GraphError:
    stuck = {index for index, count in enumerate(waiting) if count}
    before = {reader: index for index in sorted(stuck) for reader in readers[index] if reader in stuck}
    at = min(stuck)
    seen: dict[int, int] = {}
    trail: list[int] = []
    while at not in seen:
        seen[at] = len(trail)
        trail.append(at)
        at = before[at]
    loop = trail[seen[at] :][::-1]
    shown = " -> ".join(node_label(graph, graph.nodes[i], i) for i in [*loop[:8], loop[0]])
    return GraphError(f"the nodes form a cycle: {shown}", where=f"graph '{graph.name}'", fix="break one of these edges; a graph has no cycles")


def check_producers(graph: Graph) -> None:
    """Raise where a node reads a tensor whose producer is in none of the graphs around it.

    Raises:
        GraphError: naming the tensor, its reader and its producer.
    """
    present = {id(node) for g in walk.graphs(graph) for node in g.nodes}
    for index, node in enumerate(graph.nodes):
        for t in node._inputs:
            for producer in t._inputs:
                if id(producer) not in present:
                    raise GraphError(
                        f"tensor '{t.name}' is produced by node '{producer.name}' ({producer.op}), which is not in the graph",
                        where=f"graph '{graph.name}' > {node_label(graph, node, index)}",
                        fix="add the producer to graph.nodes, or clear the tensor's inputs",
                    )


def sort_functions(functions: list[Function]) -> None:
    """Order functions so that each comes after those it calls, stable otherwise.

    Args:
        functions: the model's list, sorted in place.

    Raises:
        GraphError: a function calls itself, directly or through others.
    """
    by_key = {f.key: f for f in functions}
    calls: dict[int, list[Function]] = {}
    for f in functions:
        called: dict[int, Function] = {}
        for g in walk.graphs(f):
            for node in g.nodes:
                target = by_key.get((node.domain or "", node.op, node.overload)) if node.domain or by_key.get(("", node.op, "")) else None
                if target is not None:
                    called.setdefault(id(target), target)
        calls[id(f)] = list(called.values())
    state: dict[int, int] = {}
    order: list[Function] = []
    for start in functions:
        stack = [(start, iter(calls[id(start)]))] if id(start) not in state else []
        if stack:
            state[id(start)] = 1
        while stack:
            current, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                state[id(current)] = 2
                order.append(current)
                stack.pop()
            elif state.get(id(following)) == 1:
                names = [f.name for f, _ in stack]
                loop = [*names[names.index(following.name) :], following.name]
                raise GraphError(
                    f"functions call each other in a cycle: {' -> '.join(loop)}",
                    where=f"function '{following.domain}::{following.name}'",
                    fix="ONNX functions cannot be recursive",
                )
            elif id(following) not in state:
                state[id(following)] = 1
                stack.append((following, iter(calls[id(following)])))
    functions[:] = order
