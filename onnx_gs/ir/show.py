"""How nodes, graphs and places in a model are named in messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.ir import walk

if TYPE_CHECKING:
    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node


def node_label(graph: Graph | None, node: Node, index: int | None = None) -> str:
    """Name a node: by its name, else by its index and operator.

    Example:
        >>> from onnx_gs.ir import Graph, Node
        >>> node_label(None, Node("Add", name="sum")), node_label(Graph([Node("Add")]), Node("Add"), 0)
        ("node 'sum' (Add)", 'node #0 (Add)')
    """
    if node.name:
        return f"node '{node.name}' ({node.op})"
    if index is None and graph is not None:
        index = next((i for i, n in enumerate(graph.nodes) if n is node), None)
    return f"node #{'?' if index is None else index} ({node.op})"


def graph_label(graph: Graph) -> str:
    """Name a root: ``graph 'main'`` or ``function 'domain::name'``."""
    if hasattr(graph, "unique_id"):
        overload = f":{graph.overload}" if graph.overload else ""
        return f"function '{graph.domain}::{graph.name}{overload}'"
    return f"graph '{graph.name}'"


class Places:
    """Paths of graphs and nodes in a model, such as ``graph 'main' > node 'Loop_3' (Loop) > body > node #17 (Add)``.

    Made once for a pass, since finding a path anew for each message would take the whole model each time.
    """

    def __init__(self, root: Graph) -> None:
        """Index nothing yet."""
        self._root = root
        self._parents: dict[int, tuple[Graph, Node, str] | None] | None = None
        self._index: dict[int, tuple[int, dict[int, int]]] = {}
        self._paths: dict[int, str] = {}

    def graph(self, graph: Graph) -> str:
        """Give the path of a graph."""
        known = self._paths.get(id(graph))
        if known is None:
            known = self._paths[id(graph)] = self._path(graph)
        return known

    def _path(self, graph: Graph) -> str:
        if graph is self._root:
            return graph_label(graph)
        if self._parents is None:
            self._parents = walk.parents(self._root, functions=True)
        parts: list[str] = []
        current: Graph | None = graph
        while current is not None:
            parent = self._parents.get(id(current))
            if parent is None:
                parts.append(graph_label(current))
                break
            owner, node, name = parent
            parts.extend([name, node_label(owner, node)])
            current = owner
        return " > ".join(reversed(parts))

    def node(self, graph: Graph, node: Node) -> str:
        """Give the path of a node in a graph."""
        place = self._paths.get(id(graph)) or self.graph(graph)
        return f"{place} > {node_label(None, node, None if node.name else self._position(graph, node))}"

    def _position(self, graph: Graph, node: Node) -> int | None:
        count, index = self._index.get(id(graph), (-1, {}))
        if count != len(graph.nodes):
            index = {id(n): i for i, n in enumerate(graph.nodes)}
            self._index[id(graph)] = (len(graph.nodes), index)
        return index.get(id(node))


def path(root: Graph, graph: Graph, *nodes: Node) -> str:
    """Give the path of one or more nodes of a graph in a model."""
    labels = ", ".join(node_label(graph, node) for node in nodes)
    place = Places(root).graph(graph)
    return f"{place} > {labels}" if labels else place
