"""Pickles of nodes and graphs: flat tables of tensors, nodes and graphs, so that depth and size do not matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_gs.ir import walk
from onnx_gs.ir.bulk import collector_paused
from onnx_gs.ir.node import Node, is_graph

if TYPE_CHECKING:
    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.tensor import Tensor


class _Index:
    """Stands for the n-th tensor or graph of a pickle."""

    __slots__ = ("at", "kind")

    def __init__(self, kind: str, at: int) -> None:
        self.kind, self.at = kind, at

    def __reduce__(self) -> tuple[Any, ...]:
        return (_Index, (self.kind, self.at))


class _Tables:
    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self._tensor_at: dict[int, int] = {}
        self.graphs: list[Graph] = []
        self.graph_at: dict[int, int] = {}

    def tensor(self, tensor: Tensor) -> int:
        at = self._tensor_at.get(id(tensor))
        if at is None:
            at = self._tensor_at[id(tensor)] = len(self.tensors)
            self.tensors.append(tensor)
        return at

    def add_graphs(self, root: Graph) -> None:
        for graph in walk.graphs(root):
            if id(graph) not in self.graph_at:
                self.graph_at[id(graph)] = len(self.graphs)
                self.graphs.append(graph)

    def pack(self, value: Any) -> Any:
        if is_graph(value):
            return _Index("graph", self.graph_at[id(value)])
        if isinstance(value, (list, tuple)) and any(is_graph(v) for v in value):
            return [self.pack(v) for v in value]
        return value

    def node(self, node: Node) -> tuple[Any, ...]:
        attrs = None if node._attrs is None else {k: self.pack(v) for k, v in node._attrs.items()}
        fields = (type(node), node.op, node.name, node.domain, attrs, node._source, node._facts, dict(node.__dict__))
        return (fields, [self.tensor(t) for t in node._inputs], [self.tensor(t) for t in node._outputs])

    def graph(self, graph: Graph) -> tuple[Any, ...]:
        fields = {k: v for k, v in graph.__dict__.items() if k not in {"nodes", "_inputs", "_outputs", "_record", "_functions", "_used_names"}}
        record = graph._record
        packed = None
        if record is not None:
            packed = (
                record.source,
                [self.tensor(t) for t in record.initializers],
                [self.tensor(t) for t in record.unused],
                [[(m, None if t is None else self.tensor(t)) for m, t in entries] for entries in record.described()],
            )
        return (
            type(graph), fields, [self.tensor(t) for t in graph.inputs], [self.node(n) for n in graph.nodes],
            [self.tensor(t) for t in graph.outputs], packed,
        )  # fmt: skip


def pickle_graph(graph: Graph) -> tuple[Any, ...]:
    """Give what ``__reduce__`` of a graph returns."""
    tables = _Tables()
    tables.add_graphs(graph)
    for function in graph.functions:
        tables.add_graphs(function)
    functions = [tables.graph_at[id(f)] for f in graph.functions]
    graphs = [tables.graph(g) for g in tables.graphs]
    return (_unpickle_graph, (graphs, tables.tensors, functions, tables.graph_at[id(graph)]))


def pickle_node(node: Node) -> tuple[Any, ...]:
    """Give what ``__reduce__`` of a node returns."""
    tables = _Tables()
    for body in walk.bodies(node):
        tables.add_graphs(body)
    packed = tables.node(node)
    graphs = [tables.graph(g) for g in tables.graphs]
    return (_unpickle_node, (packed, graphs, tables.tensors))


def _unpack(value: Any, graphs: list[Graph]) -> Any:
    if isinstance(value, _Index):
        return graphs[value.at]
    if isinstance(value, list) and any(isinstance(v, _Index) for v in value):
        return [_unpack(v, graphs) for v in value]
    return value


def _node(packed: tuple[Any, ...], graphs: list[Graph], tensors: list[Tensor]) -> Node:
    (kind, op, name, domain, attrs, source, facts, extra), inputs, outputs = packed
    new: Node = Node.__new__(kind)
    Node.__init__(new, op, name, domain=domain)
    new._source, new._facts = source, facts
    new._attrs = None if attrs is None else type(new._attrs)((k, _unpack(v, graphs)) for k, v in attrs.items())
    new.__dict__.update(extra)
    for links, mirror, ids in ((new._inputs, "_outputs", inputs), (new._outputs, "_inputs", outputs)):
        for at in ids:
            list.append(links, tensors[at])
            list.append(getattr(tensors[at], mirror), new)
    return new


def _fill(graphs: list[Graph], packed: list[tuple[Any, ...]], tensors: list[Tensor]) -> None:
    from onnx_gs.ir.model import ImportRecord

    for new, (_, fields, inputs, nodes, outputs, record) in zip(graphs, packed):
        new.__dict__.update(fields)
        new._inputs = [tensors[at] for at in inputs]
        new._outputs = [tensors[at] for at in outputs]
        new.nodes = [_node(n, graphs, tensors) for n in nodes]
        new._functions = []
        new._record = None
        if record is not None:
            source, initializers, unused, described = record
            new._record = ImportRecord(
                source,
                [tensors[at] for at in initializers],
                [tensors[at] for at in unused],
                *([(m, None if at is None else tensors[at]) for m, at in entries] for entries in described),
            )


def _unpickle_graph(packed: list[tuple[Any, ...]], tensors: list[Tensor], functions: list[int], root: int) -> Graph:
    with collector_paused():
        graphs: list[Any] = [object.__new__(entry[0]) for entry in packed]
        _fill(graphs, packed, tensors)
        shared = [graphs[at] for at in functions]
        for graph in graphs:
            graph._functions = shared
        return graphs[root]  # type: ignore[no-any-return]


def _unpickle_node(packed: tuple[Any, ...], graphs_packed: list[tuple[Any, ...]], tensors: list[Tensor]) -> Node:
    graphs: list[Any] = [object.__new__(entry[0]) for entry in graphs_packed]
    _fill(graphs, graphs_packed, tensors)
    return _node(packed, graphs, tensors)
