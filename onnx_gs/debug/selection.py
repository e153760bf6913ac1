"""Naming things in a model: tensors and nodes at any depth, by name, path, object, operator or neighborhood."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx_gs.errors import GraphValueError
from onnx_gs.ir import walk
from onnx_gs.ir.node import Node
from onnx_gs.ir.show import Places
from onnx_gs.ir.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from onnx_gs.ir.graph import Graph

SEPARATOR = ">"


@dataclass(frozen=True)
class Found:
    """A tensor or node, and the graph that it was found in."""

    graph: Graph
    tensor: Tensor | None = None
    node: Node | None = None


class Index:
    """Tensors and nodes of a model by name, at every depth; made once, linear.

    Args:
        root: the model's graph.
    """

    def __init__(self, root: Graph) -> None:
        """Look everything up."""
        self.root = root
        self.places = Places(root)
        self.parents = walk.parents(root)
        self.holder: dict[int, Graph] = {}
        self.home: dict[int, Graph] = {}
        self._tensors: dict[str, list[Tensor]] = {}
        self._nodes: dict[str, list[Node]] = {}
        graphs = list(walk.graphs(root))
        for graph in graphs:
            self._see(graph, graph.inputs)
            for node in graph.nodes:
                self.holder[id(node)] = graph
                if node.name:
                    self._nodes.setdefault(node.name, []).append(node)
                self._see(graph, node._outputs)
        for graph in graphs:  # what no graph defines: weights
            for node in graph.nodes:
                self._see(graph, node._inputs)
            self._see(graph, graph.outputs)

    def _see(self, graph: Graph, tensors: Sequence[Tensor]) -> None:
        home, names = self.home, self._tensors
        for t in tensors:
            if id(t) not in home and t._name:
                home[id(t)] = graph
                names.setdefault(t._name, []).append(t)

    def _named(self, name: str) -> list[Found]:
        """List the tensors, else the nodes, of a name."""
        tensors = [Found(self.home[id(t)], t) for t in self._tensors.get(name, ())]
        return tensors or [Found(self.holder[id(n)], node=n) for n in self._nodes.get(name, ())]

    def has_tensor(self, name: str) -> bool:
        """Say whether a tensor has this name, at any depth."""
        return name in self._tensors

    def lifted(self, node: Node, graph: Graph) -> Node | None:
        """Give the node of ``graph`` that is, or holds at any depth, this one; None where neither is so."""
        while True:
            holder = self.holder.get(id(node))
            if holder is None or holder is graph:
                return node if holder is graph else None
            parent = self.parents.get(id(holder))
            if parent is None:
                return None
            node = parent[1]

    def find(self, wanted: str | Tensor | Node) -> Found:
        """Find one tensor or node.

        Args:
            wanted: the object; a tensor's name, else a node's; or a path ``node > attribute > … > name`` that leads into bodies; in a path,
                ``#17`` is a node by its number.

        Raises:
            GraphValueError: there is none, or several of that name; the message lists what there is.
        """
        if isinstance(wanted, Tensor):
            if id(wanted) not in self.home:
                raise GraphValueError(f"tensor '{wanted.name}' is not in the graph", where=f"graph '{self.root.name}'")
            return Found(self.home[id(wanted)], wanted)
        if isinstance(wanted, Node):
            if id(wanted) not in self.holder:
                raise GraphValueError(f"node '{wanted.name}' ({wanted.op}) is not in the graph", where=f"graph '{self.root.name}'")
            return Found(self.holder[id(wanted)], node=wanted)
        if wanted in self._tensors or wanted in self._nodes or SEPARATOR not in wanted:
            return self._one(wanted, self._named(wanted))
        *steps, last = [part.strip() for part in wanted.split(SEPARATOR)]
        graph = self._follow(wanted, steps)
        at = re.fullmatch(r"#(\d+)", last)
        if at and int(at.group(1)) < len(graph.nodes):
            return Found(graph, node=graph.nodes[int(at.group(1))])
        nodes = [Found(graph, node=n) for n in self._nodes.get(last, ()) if self.holder[id(n)] is graph]
        inside = [f for f in [*(Found(self.home[id(t)], t) for t in self._tensors.get(last, ())), *nodes] if f.graph is graph]
        return self._one(wanted, inside[:1])

    def _follow(self, wanted: str, steps: Sequence[str]) -> Graph:
        graph = self.root
        for node_name, attribute in zip(steps[::2], steps[1::2]):
            node = next((n for n in graph.nodes if n.name == node_name), None)
            if node is None and (at := re.fullmatch(r"#(\d+)", node_name)):
                node = graph.nodes[int(at.group(1))] if int(at.group(1)) < len(graph.nodes) else None
            bodies = dict(node.bodies()) if node is not None else {}
            body = bodies.get(attribute)
            if body is None:
                what = f"has no body '{attribute}'" if node is not None else "is not there"
                fix = "spell the path as 'node > attribute > name', or 'node' as '#index' where it has no name"
                raise GraphValueError(
                    f"'{wanted}': node '{node_name}' {what}",
                    where=self.places.graph(graph),
                    fix=f"its bodies are {', '.join(map(repr, bodies))}" if bodies else fix,
                )
            graph = body
        return graph

    def _one(self, wanted: str, found: list[Found]) -> Found:
        if not found:
            near = _near(wanted, [*self._tensors, *self._nodes])
            fix = f"did you mean {near}?" if near else "`onnx-gs inspect --nodes` lists them"
            raise GraphValueError(f"no tensor or node is named '{wanted}'", where=f"graph '{self.root.name}'", fix=fix)
        if len(found) > 1:
            places = "; ".join(self.places.graph(f.graph) for f in found[:6])
            raise GraphValueError(
                f"{len(found)} tensors or nodes are named '{wanted}': in {places}", fix="give the object, or a path 'node > attribute > name'"
            )
        return found[0]

    def tensors(self, wanted: str | Tensor | Node, *, outputs: bool) -> list[Found]:
        """List the tensors meant: a tensor itself; of a node its outputs, or what it reads."""
        found = self.find(wanted)
        if found.tensor is not None:
            return [found]
        assert found.node is not None
        chosen = found.node._outputs if outputs else found.node._inputs
        return [Found(found.graph, t) for t in chosen if t._name]


def _near(wanted: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(wanted, list(names)[:20000], n=3)
    return " or ".join(f"'{name}'" for name in close)


def around(index: Index, center: str | Tensor | Node, hops: int) -> tuple[Graph, list[Node]]:
    """List the nodes of one graph within so many edges of a node or of a tensor's producer and readers.

    Args:
        index: of the model.
        center: node or tensor.
        hops: 0 is the center itself.
    """
    found = index.find(center)
    graph = found.graph
    start = [found.node] if found.node is not None else []
    if found.tensor is not None:
        start = [n for m in (*found.tensor._inputs, *found.tensor._outputs) if (n := index.lifted(m, graph)) is not None]
        hops = max(0, hops - 1)
    chosen = {id(n): n for n in start}
    ring = list(start)
    for _ in range(hops):
        following: list[Node] = []
        for node in ring:
            near = [n for t in node._inputs for n in t._inputs] + [n for t in node._outputs for n in t._outputs]
            for reader in near:
                other = index.lifted(reader, graph)
                if other is not None and id(other) not in chosen:
                    chosen[id(other)] = other
                    following.append(other)
        ring = following
    return graph, [n for n in graph.nodes if id(n) in chosen]
