"""Topological order: stable, linear, without recursion over nodes."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import chain
from typing import TYPE_CHECKING

from onnx_gs.errors import GraphError
from onnx_gs.ir import scopes, walk
from onnx_gs.ir.show import node_label
from onnx_gs.ir.tensor import Constant

if TYPE_CHECKING:
    from onnx_gs.ir.function import Function
    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node
    from onnx_gs.ir.tensor import Tensor


def sort_nodes(graph: Graph, captured: dict[int, list[Tensor]] | None = None) -> set[int]:
    """Put a graph's own nodes in order: a sorted graph keeps its order, else the earliest ready node in the old order comes first.

    Args:
        graph: sorted in place; ``graph.nodes`` becomes a new list when the order changes.
        captured: what nodes' bodies capture, by node id; computed when left out.

    Returns:
        The ids of the tensors that the nodes make.

    Raises:
        GraphError: the nodes form a cycle.
    """
    nodes = graph.nodes
    captured = scopes.all_captures(graph) if captured is None else captured
    made = set(map(id, chain.from_iterable([node._outputs for node in nodes])))
    if _is_sorted(nodes, set(made), captured):
        return made
    made_at: dict[int, int] = {}
    for index, node in enumerate(nodes):
        for t in node._outputs:
            if t._name:
                made_at[id(t)] = index
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
    return made


def _is_sorted(nodes: list[Node], unmade: set[int], captured: dict[int, list[Tensor]]) -> bool:
    """Say whether no node reads what it or a later one makes; most graphs are sorted, so this asks whole lists at a time."""
    for node in nodes:
        if not unmade.isdisjoint(map(id, node._inputs)) and any(id(t) in unmade and t._name for t in node._inputs):
            return False
        if node._attrs and any(id(t) in unmade for t in captured.get(id(node), ())):
            return False
        unmade.difference_update(map(id, node._outputs))
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


def check_producers(graph: Graph, made: set[int]) -> None:
    """Raise where a node reads a tensor whose producer is in none of the graphs around it.

    Args:
        graph: the model's graph.
        made: ids of tensors that are made in the graph or its bodies, and need not be looked at.

    Raises:
        GraphError: naming the tensor, its reader and its producer; never for a body that is looked at without what is around it.
    """
    strays = {id(t): t for t in chain.from_iterable([node._inputs for node in graph.nodes]) if id(t) not in made}
    # What is stored needs no producer, and most constants have no list of them yet.
    produced = [t for t in strays.values() if not isinstance(t, Constant) and t._inputs]
    if not produced:
        return
    present = {id(node) for g in walk.graphs(graph) for node in g.nodes}
    for t in produced:
        for producer in t._inputs:
            if id(producer) in present:
                continue
            if _is_body(graph, producer):  # sorted on its own: what is around it makes what it reads
                return
            index, reader = next((k, n) for k, n in enumerate(graph.nodes) if any(read is t for read in n._inputs))
            raise GraphError(
                f"tensor '{t.name}' is produced by node '{producer.name}' ({producer.op}), which is not in the graph",
                where=f"graph '{graph.name}' > {node_label(graph, reader, index)}",
                fix="add the producer to graph.nodes, or clear the tensor's inputs",
            )


def _is_body(graph: Graph, near: Node) -> bool:
    """Whether a graph is a branch, which has no inputs, or the body of a node that edges connect with this one."""
    if not graph.inputs:
        return True
    seen = {id(near)}
    waiting = [near]
    while waiting:
        node = waiting.pop()
        if node._attrs and any(body is graph for body in walk.bodies(node)):
            return True
        for t in chain(node._inputs, node._outputs):
            if isinstance(t, Constant):
                continue
            for neighbor in chain(t._inputs, t._outputs):
                if id(neighbor) not in seen:
                    seen.add(id(neighbor))
                    waiting.append(neighbor)
    return False


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
