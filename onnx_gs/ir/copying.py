"""Copies of graphs and functions: flat, linear, by identity."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from onnx_gs.ir import scopes, walk
from onnx_gs.ir.faults import explained
from onnx_gs.ir.node import is_graph
from onnx_gs.ir.tensor import Constant, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from onnx_gs.ir.function import Function
    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.node import Node

G = TypeVar("G", bound="Graph")
F = TypeVar("F", bound="Function")


class Twins:
    """Original tensor to copy, by identity; what is neither copied yet nor given by name gets a copy on first sight.

    Args:
        outer: tensors that the copies shall use instead of captured ones of the same name.
        local: ids of tensors that the copied graphs define, which always get copies of their own.
        share: leave captured tensors that ``outer`` does not name as they are, rather than copying them.
    """

    def __init__(self, outer: Mapping[str, Tensor] | None, local: set[int], *, share: bool = False) -> None:
        self.made: dict[int, Tensor] = {}
        self._kept: list[Tensor] = []  # originals stay alive, so that ids stay theirs
        self.outer = outer or {}
        self.local = local
        self.share = share

    def __call__(self, tensor: Tensor) -> Tensor:
        """Give the twin of a tensor."""
        return self.made.get(id(tensor)) or self.add(tensor)

    def all(self, tensors: Iterable[Tensor]) -> list[Tensor]:
        """Give the twins of many tensors."""
        get, add = self.made.get, self.add
        return [get(id(t)) or add(t) for t in tensors]

    @property
    def is_plain(self) -> bool:
        """Whether every tensor is simply copied."""
        return not self.share and not self.outer

    def plain(self, tensor: Tensor) -> Tensor:
        """Copy a tensor that has no twin yet, where every tensor is simply copied."""
        twin = self.made[id(tensor)] = tensor.copy()
        return twin

    def add(self, tensor: Tensor) -> Tensor:
        """Make the twin of a tensor that has none yet."""
        name = tensor._name
        if name and (self.share or self.outer) and id(tensor) not in self.local:
            given = None if isinstance(tensor, Constant) else self.outer.get(name)
            twin = given if given is not None else tensor if self.share else tensor.copy()
        else:
            twin = tensor.copy()
        self.made[id(tensor)] = twin
        self._kept.append(tensor)
        return twin


def copy_graph(graph: G, tensor_map: Mapping[str, Tensor] | None = None, twins: Twins | None = None) -> G:
    """Copy a graph with its bodies; see ``Graph.copy``."""
    twins = twins or Twins(tensor_map, scopes.defined_in(graph) if tensor_map else set())
    new: G = object.__new__(type(graph))
    new.__dict__.update(graph.__dict__)
    new.__dict__.pop("_used_names", None)
    new._inputs = twins.all(graph.inputs)
    new.nodes = copy_nodes(graph, twins)
    new._outputs = twins.all(graph.outputs)
    new.name_idx = 0
    new._import_domains = list(graph._import_domains) if isinstance(graph._import_domains, list) else graph._import_domains
    new.metadata_props = dict(graph.metadata_props)
    new.model = graph.model.copy() if graph.model is not None else None
    new._record = graph._record.copy(twins.all) if graph._record is not None else None
    new._share_functions(list(graph._functions))
    return new


def copy_nodes(graph: Graph, twins: Twins) -> list[Node]:
    """Give copies of a graph's nodes, bodies included, that are linked by the twins of their tensors."""
    copies: list[Node] = []
    get, add = twins.made.get, twins.plain if twins.is_plain else twins.add
    append = list.append
    for node in graph.nodes:
        new = node._twin()
        if new._attrs:
            _replace_bodies(new, partial(copy_graph, twins=twins))
        extra = node.__dict__
        if extra:
            new.__dict__.update(extra)
        inputs = new._inputs
        for t in node._inputs:
            twin = get(id(t)) or add(t)
            append(inputs, twin)
            append(twin._outputs, new)
        outputs = new._outputs
        for t in node._outputs:
            twin = get(id(t)) or add(t)
            append(outputs, twin)
            append(twin._inputs, new)
        append(copies, new)
    return copies


def copy_bodies(node: Node, tensor_map: Mapping[str, Tensor] | None) -> None:
    """Give a node copies of the bodies that it holds; unlike copies of whole graphs, they keep the functions that they know."""

    def copied(body: Graph) -> Graph:
        with explained(body):
            return copy_graph(body, tensor_map)

    _replace_bodies(node, copied)


def _replace_bodies(node: Node, by: Callable[[Graph], Graph]) -> None:
    """Put what ``by`` makes of each body in its place in the node's attributes."""
    for name, value in node._attrs.items():
        if is_graph(value):
            node._attrs[name] = by(value)
        elif isinstance(value, (list, tuple)) and any(is_graph(v) for v in value):
            node._attrs[name] = [by(v) if is_graph(v) else v for v in value]


def copy_function(function: F, tensor_map: Mapping[str, Tensor] | None = None) -> F:
    """Copy a function; attribute defaults are copied one level, the list of functions is shared."""
    new = copy_graph(function, tensor_map)
    new.attrs = {name: (value.copy() if isinstance(value, (dict, list, Tensor)) else value) for name, value in function.attrs.items()}
    new._share_functions(function._functions)
    return new


def copy_model(graph: G, tensor_map: Mapping[str, Tensor] | None = None) -> G:
    """Copy a graph with its bodies and the model's functions: what is done to the copy leaves the original alone."""
    new = copy_graph(graph, tensor_map)
    if not new._functions:
        return new
    functions = new._functions
    functions[:] = [copy_function(f) for f in functions]
    for function in functions:
        function._share_functions(functions)
    return new


def deepcopy_graph(graph: G) -> G:
    """Copy a graph so that nothing that can be changed is shared: functions, arrays and attribute values included."""
    new = copy_graph(graph)
    functions = [copy_graph(f) for f in graph.functions]
    for f in functions:
        f.attrs = deepcopy(f.attrs)
    new._functions = functions
    roots: list[Any] = [new, *functions]
    seen: set[int] = set()
    for root in roots:
        for g in walk.graphs(root):
            g._functions = functions
            g._import_domains = deepcopy(g._import_domains)
            for node in g.nodes:
                if node._attrs:
                    _own_values(node)
            for t in walk.tensors(g):
                if id(t) not in seen:
                    seen.add(id(t))
                    _own_array(t)
    return new


def _own_values(node: Node) -> None:
    for name, value in node._attrs.items():
        if not is_graph(value) and not (isinstance(value, list) and any(is_graph(v) for v in value)):
            node._attrs[name] = deepcopy(value)


def _own_array(tensor: Tensor) -> None:
    if isinstance(tensor, Constant) and isinstance(tensor._values, np.ndarray) and tensor._values.flags.writeable:
        tensor._values = tensor._values.copy()
