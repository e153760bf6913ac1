"""Topological order: stable, linear, without recursion over nodes."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from onnx_gs.errors import GraphError
from onnx_gs.ir import scopes, walk
from onnx_gs.ir.edges import Edges
from onnx_gs.ir.show import node_label
from onnx_gs.ir.tensor import Constant

if TYPE_CHECKING:
    from onnx_gs.ir.function import Function
    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node
    from onnx_gs.ir.tensor import Tensor


def sort_nodes(graph: Graph, captured: dict[int, list[Tensor]] | None = None, edges: Edges | None = None) -> Edges:
    """Put a graph's own nodes in order: a sorted graph keeps its order, else the earliest ready node in the old order comes first.

    Args:
        graph: sorted in place; ``graph.nodes`` becomes a new list when the order changes.
        captured: what nodes' bodies capture, by node id; computed when left out.
        edges: the graph's edges, where the caller has read them already.

    Returns:
        The edges, as they were before sorting.

    Raises:
        GraphError: the nodes form a cycle.
    """
    captured = scopes.all_captures(graph) if captured is None else captured
    edges = Edges(graph) if edges is None else edges
    found = _Sorted.of(edges, captured)
    if found is not None:
        if len(found.order) != len(edges.nodes):
            raise found.cycle(graph)
        graph.nodes = found.order
    return edges


class _Sorted:
    """The nodes of a graph in order, and what stands in the way of those that have no place in it.

    Attributes:
        nodes: the nodes as they were.
        order: the nodes in order, without those on cycles and those that depend on them.
        waiting: for each node how many of its inputs are made by nodes without a place.
        readers: for each node the positions of those that read what it makes.
    """

    def __init__(self, edges: Edges, taken: dict[int, list[int]]) -> None:
        nodes = self.nodes = edges.nodes
        makers = edges.makers()
        waiting = self.waiting = [0] * len(nodes)
        readers: list[list[int]] = [[] for _ in nodes]
        self.readers = readers
        for index, (start, end) in enumerate(pairwise(edges.first_read)):
            for place in chain(edges.read_at[start:end], taken.get(index, ())):
                if place >= 0:
                    waiting[index] += 1
                    readers[makers[place]].append(index)
        ready = [index for index, missing in enumerate(waiting) if missing == 0]
        heapify(ready)
        order: list[Node] = []
        while ready:
            index = heappop(ready)
            order.append(nodes[index])
            for reader in readers[index]:
                waiting[reader] -= 1
                if waiting[reader] == 0:
                    heappush(ready, reader)
        self.order = order

    @classmethod
    def of(cls, edges: Edges, captured: dict[int, list[Tensor]]) -> _Sorted | None:
        """Sort nodes; None where they are in order."""
        # What the bodies of a node capture is read by the node.
        taken = {i: edges.places(captured[id(node)]) for i, node in enumerate(edges.nodes) if id(node) in captured} if captured else {}
        if edges.in_order() and all(place < edges.first_made[i] for i, places in taken.items() for place in places):
            return None
        return cls(edges, taken)

    def stuck(self) -> set[int]:
        """Give the positions of the nodes that have no place in the order."""
        return {index for index, count in enumerate(self.waiting) if count}

    def cycle(self, graph: Graph, start: int | None = None) -> GraphError:
        """Name a cycle: the first, or the one that a node depends on."""
        stuck = self.stuck()
        before = {reader: index for index in sorted(stuck) for reader in self.readers[index] if reader in stuck}
        at = min(stuck) if start is None else start
        seen: dict[int, int] = {}
        trail: list[int] = []
        while at not in seen:
            seen[at] = len(trail)
            trail.append(at)
            at = before[at]
        loop = trail[seen[at] :][::-1]
        shown = " -> ".join(node_label(graph, self.nodes[i], i) for i in [*loop[:8], loop[0]])
        return GraphError(f"the nodes form a cycle: {shown}", where=f"graph '{graph.name}'", fix="break one of these edges; a graph has no cycles")


def require_acyclic(root: Graph, *, needed: set[int] | None = None) -> None:
    """Raise where nodes form a cycle, in a graph, its bodies and the functions; nothing is changed.

    Args:
        root: the model's graph.
        needed: ids of nodes of ``root`` itself: only cycles that these depend on count, and bodies and functions are not looked into.

    Raises:
        GraphError: naming the nodes of a cycle.
    """
    for start in (root, *root.functions) if needed is None else (root,):
        captured = scopes.all_captures(start)
        for graph in walk.graphs(start) if needed is None else (root,):
            found = _Sorted.of(Edges(graph), captured)
            if found is None or len(found.order) == len(found.nodes):
                continue
            at = next((i for i in sorted(found.stuck()) if needed is None or id(found.nodes[i]) in needed), None)
            if at is not None:
                raise found.cycle(graph, at)


def check_producers(graph: Graph, edges: Edges, made: set[int]) -> None:
    """Raise where a node reads a tensor whose producer is in none of the graphs around it.

    Args:
        graph: the model's graph.
        edges: the graph's edges.
        made: ids of tensors that the bodies in the graph make, which need not be looked at.

    Raises:
        GraphError: naming the tensor, its reader and its producer; never for a body that is looked at without what is around it.
    """
    # What is stored needs no producer, and most constants have no list of them yet.
    produced = [t for t in edges.strays.values() if not isinstance(t, Constant) and t._inputs and id(t) not in made]
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
