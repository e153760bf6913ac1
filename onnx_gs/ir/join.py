"""Distinct tensor objects of one name in one scope mean one tensor: joining them, once, so that identity holds from then on."""

from __future__ import annotations

import logging
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from onnx_gs.errors import GraphError
from onnx_gs.ir import dtypes
from onnx_gs.ir.edges import Edges
from onnx_gs.ir.edit import move_consumers
from onnx_gs.ir.node import same_value, with_bodies
from onnx_gs.ir.show import graph_label
from onnx_gs.ir.tensor import Constant, Tensor, Variable
from onnx_gs.ir.walk import bodies

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from onnx_gs.ir.graph import Graph

LOGGER = logging.getLogger("onnx_gs")


def join_names(root: Graph, edges: Edges | None = None) -> int:
    """Make every name of a scope one tensor object, and count those that were joined into another; linear.

    A tensor without a producer is what its namesake in the same scope, or else in a scope around it, is. Functions are scopes of their own and
    are joined too. One warning is logged when anything was joined.

    Args:
        root: the model's graph, changed in place.
        edges: its edges, where the caller has read them already; they are outdated when anything was joined.

    Raises:
        GraphError: two tensors of one name conflict: two producers, two different values, or two dtypes.

    Example:
        >>> from onnx_gs.ir import Graph, Node
        >>> x, y = Variable("x"), Variable("y")
        >>> graph = Graph([Node("Neg", inputs=[Variable("x")], outputs=[y])], [x], [Variable("y")])
        >>> join_names(graph), graph.nodes[0].inputs[0] is x, graph.outputs[0] is y
        (2, True, True)
    """
    if all(_names_are_unique(graph, edges if graph is root else None) for graph in (root, *root.functions)):
        return 0
    joined = sum(_join_scope(graph, (), ()) for graph in (root, *root.functions))
    if joined:
        LOGGER.warning("graph '%s': %d tensors were distinct objects of a name already in use and now are that one tensor", root.name, joined)
    return joined


def _names_are_unique(graph: Graph, edges: Edges | None) -> bool:
    """Say whether a graph without bodies has no two tensors of one name: the common case, decided at C speed."""
    if with_bodies(graph.nodes):
        return False
    edges = Edges(graph) if edges is None else edges
    made, strays = edges.made_at, edges.strays
    given = {id(t): t for t in chain(graph.inputs, graph.outputs) if id(t) not in made and id(t) not in strays}
    names = {*edges.names, *map(attrgetter("_name"), chain(strays.values(), given.values()))}
    objects = len(made) + len(strays) + len(given)
    if "" in names:
        names.remove("")
        objects -= sum(not t._name for t in chain(strays.values(), given.values()))
    return len(names) == objects


def _join_scope(graph: Graph, outer: tuple[Mapping[str, Tensor], ...], outer_ids: tuple[set[int], ...]) -> int:
    own: dict[str, Tensor] = {}
    ids: set[int] = set()
    joined = 0
    for t in graph.inputs:
        if own.setdefault(t._name, t) is not t:
            raise _conflict(graph, t._name, own[t._name], t, "two inputs of the graph have this name")
        ids.add(id(t))
    for node in graph.nodes:
        for t in node._outputs:
            if not t._name:
                continue
            present = own.setdefault(t._name, t)
            if present is not t:
                raise _conflict(graph, t._name, present, t, "both are produced")
            ids.add(id(t))
    replaced: dict[int, Tensor] = {}
    for t in _used(graph):
        key = id(t)
        if key in ids or key in replaced or not t._name or any(key in known for known in outer_ids):
            continue
        target = own.get(t._name)
        if isinstance(t, Constant):
            if target is None:
                own[t._name] = t
                ids.add(id(t))
                continue
            _check_values(graph, target, t)
        elif target is None:
            target = next((scope[t._name] for scope in reversed(outer) if t._name in scope), None)
            if target is None:
                own[t._name] = t  # defined nowhere: the first of its name stands for the others
                ids.add(id(t))
                continue
        _check_types(graph, target, t)
        _absorb(target, t)
        replaced[id(t)] = target
        joined += 1
    if replaced:
        graph._outputs = [replaced.get(id(t), t) for t in graph._outputs]
    for node in graph.nodes:
        if node._attrs:
            for body in bodies(node):
                joined += _join_scope(body, (*outer, own), (*outer_ids, ids))
    return joined


def _used(graph: Graph) -> Iterator[Tensor]:
    for node in graph.nodes:
        yield from list(node._inputs)
    yield from list(graph._outputs)


def _absorb(target: Tensor, twin: Tensor) -> None:
    if isinstance(target, Variable) and isinstance(twin, Variable):
        if target.dtype is None and twin.dtype is not None:
            target.dtype = twin.dtype
        if target.shape is None and twin.shape is not None:
            target.shape = twin.shape
    move_consumers(twin, target)


def _check_values(graph: Graph, target: Tensor, twin: Constant) -> None:
    if not isinstance(target, Constant):
        raise _conflict(graph, twin._name, target, twin, "one is stored and the other is computed")
    if target._values is twin._values:
        return
    same = target.dtype == twin.dtype and target.shape == twin.shape and same_value(np.asarray(target.values), np.asarray(twin.values))
    if not same:
        raise _conflict(graph, twin._name, target, twin, "their values differ")


def _check_types(graph: Graph, target: Tensor, twin: Tensor) -> None:
    mine, other = dtypes.of(target), dtypes.of(twin)
    if mine is not None and other is not None and mine is not other:
        raise _conflict(graph, twin._name, target, twin, f"one is {mine.name} and the other {other.name}")


def _conflict(graph: Graph, name: str, first: Tensor, second: Tensor, why: str) -> GraphError:
    def maker(t: Tensor) -> str:
        return f"{t}, produced by '{t._inputs[0].name or t._inputs[0].op}'" if t._inputs else str(t)

    return GraphError(
        f"two different tensors are named '{name}': {why}: {maker(first)}; {maker(second)}", where=graph_label(graph), fix="rename one of them"
    )
