"""Liveness: what the outputs of a graph depend on."""

from __future__ import annotations

from itertools import chain, compress, pairwise
from operator import eq
from typing import TYPE_CHECKING

from onnx_gs.ir import order, scopes, walk
from onnx_gs.ir.edges import Edges, clear_all
from onnx_gs.ir.edit import detach as unlink
from onnx_gs.ir.node import with_bodies

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

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
    edges = Edges(graph)
    flags = _live_flags(graph, captured, edges)
    return [*compress(edges.nodes, flags)] if flags is not None else _search(graph, captured)


def _search(graph: Graph, captured: dict[int, list[Tensor]]) -> list[Node]:
    """Find the live nodes of a graph in any order, from its outputs up."""
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


def drop_dead(graph: Graph, captured: dict[int, list[Tensor]], edges: Edges | None = None) -> list[Node]:
    """Take the nodes that no output depends on out of a graph, unlinked; bodies are not looked into.

    Args:
        graph: its list of nodes is replaced where nodes go.
        captured: what nodes' bodies capture, by node id.
        edges: the graph's edges, where the caller has read them already.

    Returns:
        The nodes that went, in the graph's order.

    Raises:
        GraphError: an output depends on a cycle of nodes; nothing was changed then.
    """
    edges = Edges(graph) if edges is None else edges
    flags = _live_flags(graph, captured, edges)
    if flags is None:
        live = _search(graph, captured)
        kept = set(map(id, live))
        order.require_acyclic(graph, needed=kept)
        dead = [node for node in graph.nodes if id(node) not in kept]
        detach(dead)
    else:
        if 0 not in flags:
            return []
        live = [*compress(edges.nodes, flags)]
        places = [index for index, alive in enumerate(flags) if not alive]
        dead = [edges.nodes[index] for index in places]
        if with_bodies(dead) or not _detach_among_themselves(edges, places, dead):
            detach(dead)
    graph.nodes = live
    return dead


def drop_unread(graphs: Sequence[Graph]) -> list[Node]:
    """Take out of graphs the nodes whose results nothing reads or returns, unlinked, and then those that only these read.

    Where nothing was dead before, and edits brought no cycle, this is what ``drop_dead`` does, and cheaper.

    Args:
        graphs: a root and all bodies inside it.

    Returns:
        The nodes that went, those in their bodies among them.
    """
    removed: list[Node] = []
    while True:
        returned = {id(t) for graph in graphs for t in graph._outputs}
        before = len(removed)
        for graph in graphs:
            dead: set[int] = set()
            for node in reversed(graph.nodes):
                for t in node._outputs:
                    if t._outputs or id(t) in returned:
                        break
                else:
                    dead.add(id(node))
                    removed.append(node)
                    unlink(node)
            if dead:
                graph.nodes = [node for node in graph.nodes if id(node) not in dead]
        if len(removed) == before:
            return removed
        if len(graphs) > 1:
            graphs = list(walk.graphs(graphs[0]))  # without the bodies of nodes that went


def _live_flags(graph: Graph, captured: dict[int, list[Tensor]], edges: Edges) -> bytearray | None:
    """Flag the nodes that outputs depend on, in one pass from the end of a sorted graph; None where an input is made too or the order is another."""
    if any(t._inputs for t in graph.inputs) or not edges.in_order():
        return None
    first_made, first_read, read_at = edges.first_made, edges.first_read, edges.read_at
    returned = edges.places(graph.outputs)
    flags = bytearray(b"\1") * len(edges.nodes)
    if not captured and len({*read_at, *returned} - {-1}) == len(edges.made) and not any(map(eq, first_made, first_made[1:])):
        return flags  # every node makes something, and nothing in vain: by the order, from the last to the first, all are live
    needed = bytearray(len(edges.made) + 1)  # one more, where all strays fall: their place is -1
    for place in returned:
        needed[place] = 1
    find = needed.find
    for index in range(len(flags) - 1, -1, -1):
        if find(1, first_made[index], first_made[index + 1]) < 0:
            flags[index] = 0
            continue
        for place in read_at[first_read[index] : first_read[index + 1]]:
            needed[place] = 1
        for place in edges.places(captured.get(id(edges.nodes[index]), ())) if captured else ():
            if place >= first_made[index]:
                return None
            needed[place] = 1
    return flags


def _detach_among_themselves(edges: Edges, positions: list[int], dead: list[Node]) -> bool:
    """Unlink dead nodes that alone read and make what they read and make; say whether they do. Else nothing has changed.

    The lengths of all lists of links together tell, without a look at each entry: every link of these nodes is in them, so as many entries as
    there are links mean that there are no others.
    """
    runs = _runs(positions)
    made_spans = [slice(edges.first_made[start], edges.first_made[end]) for start, end in runs]
    read_spans = [slice(edges.first_read[start], edges.first_read[end]) for start, end in runs]
    made = [*chain.from_iterable(map(edges.made.__getitem__, made_spans))]
    read = [*chain.from_iterable(map(edges.read.__getitem__, read_spans))]
    own = bytearray(len(edges.made) + 1)
    for span in made_spans:
        own[span] = b"\1" * (span.stop - span.start)
    inside = [own[place] for place in chain.from_iterable(map(edges.read_at.__getitem__, read_spans))]
    makers = [t._inputs for t in made]
    readers = [t._outputs for t in made]
    if sum(map(len, makers)) != len(made) or sum(map(len, readers)) != sum(inside):
        return False
    outside = [t for t, from_inside in zip(read, inside) if not from_inside]
    rest = [t._outputs for t in dict(zip(map(id, outside), outside)).values()]
    if sum(map(len, rest)) == len(outside):
        clear_all(rest)
    else:
        _filter(rest, set(map(id, dead)))
    clear_all(chain(makers, readers, (node._inputs for node in dead), (node._outputs for node in dead)))
    return True


def _runs(positions: list[int]) -> list[tuple[int, int]]:
    """Give the start and end of each stretch of positions that follow each other."""
    if not positions:
        return []
    breaks = [k for k, (a, b) in enumerate(pairwise(positions), 1) if b != a + 1]
    return [(positions[start], positions[end - 1] + 1) for start, end in zip([0, *breaks], [*breaks, len(positions)])]


def _filter(lists: Iterable[list[Node]], gone: Container[int]) -> None:
    for links in lists:
        if len(links) == 1 and id(links[0]) in gone:  # the common case
            list.clear(links)
        elif links:
            list.__setitem__(links, slice(None), [n for n in links if id(n) not in gone])


def detach(nodes: list[Node]) -> None:
    """Unlink nodes, and everything in their bodies, from all their tensors: in bulk, one pass a list.

    A list that only loses nodes of this set is rebuilt once, however many it loses.
    """
    gone: dict[int, Node] = dict(zip(map(id, nodes), nodes))
    for node in nodes:
        for body in walk.nested(node) if node._attrs else ():
            gone.update((id(inner), inner) for inner in body.nodes)
    outputs = [node._outputs for node in gone.values()]
    inputs = [node._inputs for node in gone.values()]
    made: dict[int, Tensor] = {id(t): t for t in chain.from_iterable(outputs)}
    read: dict[int, Tensor] = {id(t): t for t in chain.from_iterable(inputs)}
    _filter(chain([t._outputs for t in read.values()], [t._inputs for t in made.values()]), gone)
    clear_all(chain(inputs, outputs))
