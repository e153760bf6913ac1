"""Building by example: nodes from tensors, names, arrays and numbers, and operators that users register."""

from __future__ import annotations

import logging
import types
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.errors import GraphTypeError
from onnx_gs.ir.node import Node
from onnx_gs.ir.synchronized_list import edge_log
from onnx_gs.ir.tensor import Constant, Tensor, Variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.synchronized_list import SynchronizedList

LOGGER = logging.getLogger("onnx_gs")


class UsedNames:
    """The names in a graph, kept up to date across ``layer`` calls without listing all tensors each time.

    ``sure`` are names known to be or to have been in the graph, ``maybe`` names that came into use anywhere since. A candidate in either is
    checked against the graph itself, which happens rarely, as the counter moves on.
    """

    def __init__(self, graph: Graph) -> None:
        self.sure: set[str] = set()
        self.maybe: set[str] = set()
        self._node_count = -1
        self._seen = 0
        self._rebuild(graph)

    def _rebuild(self, graph: Graph) -> None:
        self.sure = {t._name for t in (*graph.inputs, *graph.outputs)}
        for node in graph.nodes:
            self.sure.add(node.name)
            self.sure.update(t._name for t in node._inputs)
            self.sure.update(t._name for t in node._outputs)
        self.maybe = set()
        self._node_count = len(graph.nodes)
        self._seen = edge_log.total

    def refresh(self, graph: Graph) -> None:
        """Take in what happened since the last call."""
        recent = edge_log.since(self._seen)
        if recent is None or self._node_count != len(graph.nodes):
            self._rebuild(graph)
            return
        self.maybe.update(recent)
        self._seen = edge_log.total
        for t in (*graph.inputs, *graph.outputs):
            self.maybe.add(t._name)

    def has(self, graph: Graph, name: str) -> bool:
        """Say whether the graph uses this name."""
        if name not in self.sure and name not in self.maybe:
            return False
        self._rebuild(graph)
        return name in self.sure

    def added(self, graph: Graph, node: Node) -> None:
        """Note a node that was just appended."""
        self.sure.add(node.name)
        self.sure.update(t._name for t in node._inputs)
        self.sure.update(t._name for t in node._outputs)
        self._node_count = len(graph.nodes)
        self._seen = edge_log.total


class _FreshNames:
    """Names for one ``layer`` call: one counter, names of the graph and of this call skipped."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        used = graph.__dict__.get("_used_names")
        if used is None:
            used = graph.__dict__["_used_names"] = UsedNames(graph)
        else:
            used.refresh(graph)
        self.used: UsedNames = used
        self.made: set[str] = set()

    def __contains__(self, name: object) -> bool:
        return name in self.made or self.used.has(self.graph, str(name))

    def give(self, prefix: str) -> str:
        name = self.graph._generate_name(prefix, self)  # type: ignore[arg-type]
        self.made.add(name)
        return name


def _as_tensor(item: Any, fresh: _FreshNames) -> Tensor:
    if isinstance(item, Tensor):
        return item
    if isinstance(item, str):
        return Variable(fresh.give(item))
    if isinstance(item, np.ndarray):
        return Constant(fresh.give("onnx_graphsurgeon_constant"), item)
    if isinstance(item, (list, tuple)) and (numbers := _numbers(item)) is not None:
        return Constant(fresh.give("onnx_graphsurgeon_lst_constant"), np.array(item, dtype=_dtype_of(numbers)))
    if _is_number(item):
        return Constant(fresh.give("onnx_graphsurgeon_lst_constant"), np.array(item, dtype=_dtype_of([item])))
    raise GraphTypeError(
        f"{type(item).__name__} {item!r:.80} cannot be an input or output of a layer",
        fix="give a Tensor, a name, a numpy array, a list of numbers or a number",
    )


def _numbers(items: list[Any] | tuple[Any, ...]) -> list[Any] | None:
    """List the numbers in lists nested to one depth and of one length at each; None where it is something else."""
    if not any(isinstance(item, (list, tuple)) for item in items):
        return list(items) if all(map(_is_number, items)) else None
    if not all(isinstance(item, (list, tuple)) for item in items) or len({_extents(item) for item in items}) > 1:
        return None
    parts = [_numbers(item) for item in items]
    return None if any(part is None for part in parts) else [number for part in parts if part is not None for number in part]


def _extents(items: Any) -> tuple[int, ...]:
    """Give the lengths of nested lists, along the first of each."""
    found = []
    while isinstance(items, (list, tuple)):
        found.append(len(items))
        items = items[0] if items else None
    return tuple(found)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number, np.bool_))


def _dtype_of(values: Iterable[Any]) -> Any:
    values = list(values)
    scalars = [v.dtype for v in values if isinstance(v, (np.number, np.bool_))]
    if scalars and len(scalars) == len(values):
        return np.result_type(*scalars)
    if any(isinstance(v, (float, np.floating)) for v in values):
        return np.float32
    return np.int64


def layer(graph: Graph, inputs: Any = None, outputs: Any = None, *args: Any, **kwargs: Any) -> SynchronizedList[Tensor]:
    """Append a node to ``graph``; see ``Graph.layer``."""
    fresh = _FreshNames(graph)
    read = [_as_tensor(item, fresh) for item in (inputs if inputs is not None else [])]
    made = [_as_tensor(item, fresh) for item in (outputs if outputs is not None else [])]
    if len(args) < 2 and "name" not in kwargs:  # Node's second positional argument is its name
        kwargs["name"] = fresh.give("onnx_graphsurgeon_node")
    node = Node(*args, **{**kwargs, "inputs": read, "outputs": made})
    graph.nodes.append(node)
    fresh.used.added(graph, node)
    return node.outputs


def registrar(owner: type[Graph], opsets: Iterable[int] | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give the decorator that ``Graph.register`` returns."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        if hasattr(owner, name) and not is_yielding(owner, name):
            LOGGER.warning("registered function '%s' is hidden by a method of graphs; give it another name", name)
        if opsets is None:
            owner.GLOBAL_FUNC_MAP[name] = function
        else:
            for opset in opsets:
                owner.OPSET_FUNC_MAP.setdefault(opset, {})[name] = function
        return function

    return register


def registered(graph: Graph, name: str) -> Callable[..., Any] | None:
    """Give the function registered under a name for the graph's opset, else for all opsets, else None."""
    for_opset = graph.OPSET_FUNC_MAP.get(graph.opset, {}).get(name)
    return for_opset if for_opset is not None else graph.GLOBAL_FUNC_MAP.get(name)


def find_registered(graph: Graph, name: str) -> Any:
    """Find what ``graph.name`` means when no attribute has that name.

    Raises:
        AttributeError: no function of that name is registered or local.
    """
    found = registered(graph, name)
    if found is not None:
        return types.MethodType(found, graph)
    local = [f for f in graph.__dict__.get("_functions", ()) if f.name == name]
    if len(local) > 1:
        LOGGER.warning("several local functions are named '%s'; the first is called, of domain '%s'", name, local[0].domain)
    if local:
        return types.MethodType(local[0], graph)
    opsets = sorted(opset for opset, functions in graph.OPSET_FUNC_MAP.items() if name in functions)
    hint = f"; it is registered for opsets {opsets}, and the graph has opset {graph.opset}" if opsets else ""
    raise AttributeError(f"'{type(graph).__name__}' object has no attribute '{name}', and no function of that name is registered{hint}")


class Yielding:
    """A method of ours that gives way to a function that a user registered under its name.

    Scripts register functions under any name that the reference does not use itself, so our additions may not take names from them.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__
        self.__wrapped__ = method

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, graph: Graph | None, owner: type) -> Any:
        if graph is None:
            return self.method
        found = registered(graph, self.name)
        return types.MethodType(found if found is not None else self.method, graph)


def is_yielding(owner: type, name: str) -> bool:
    """Say whether a class's attribute gives way to registered functions."""
    return any(isinstance(cls.__dict__.get(name), Yielding) for cls in owner.__mro__)
