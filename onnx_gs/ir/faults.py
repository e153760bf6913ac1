"""Explaining failures: what in a graph is of the wrong kind, looked for only once something has failed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.errors import GraphError, GraphTypeError, OnnxGsError
from onnx_gs.ir import order, walk
from onnx_gs.ir.node import Node
from onnx_gs.ir.show import graph_label
from onnx_gs.ir.tensor import Constant, Tensor
from onnx_gs.ir.values import LazyValues

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx_gs.ir.graph import Graph


@contextmanager
def explained(graph: Graph) -> Iterator[None]:
    """Turn a failure that something of the wrong kind in the graph caused into an error that names it; any other passes.

    Raises:
        GraphError: bodies hold themselves, nodes form a cycle, or bodies are nested too deep.
        GraphTypeError: something in the graph is of the wrong kind.
    """
    try:
        yield
    except OnnxGsError:
        raise
    except (TypeError, AttributeError, AssertionError) as error:
        fault = find_fault(graph)
        if fault is None:
            raise
        raise fault from error
    except RecursionError as error:
        raise _nesting(graph) from error


def find_fault(root: Graph) -> GraphError | None:
    r"""Find something of the wrong kind: what is no node or tensor, a name that is no text, a shape that is no sequence, values that are no array.

    Example:
        >>> from onnx_gs.ir import Graph
        >>> graph = Graph()
        >>> graph.nodes.append(None)
        >>> str(find_fault(graph))
        "item 0 of 'nodes' is a NoneType, not a node\n  where: graph 'onnx_graphsurgeon_graph'\n  fix: put Node objects there"
    """
    pending: list[Any] = [root, *root.functions]
    seen: set[int] = set()
    while pending:
        graph = pending.pop()
        if id(graph) in seen:
            continue
        seen.add(id(graph))
        for fault in _faults(graph):
            return GraphTypeError(fault, where=graph_label(graph), fix=_fix(fault))
        pending.extend(body for node in graph.nodes if node._attrs for _, body in node.bodies())
    return None


def _fix(fault: str) -> str | None:
    if fault.endswith("not a tensor"):
        name = "put the tensor itself there, not its name: a Variable, or graph.tensors()[name]"
        return name if "is a str" in fault else "put Variable or Constant objects there"
    return "put Node objects there" if fault.endswith("not a node") else None


def _faults(graph: Any) -> Iterator[str]:
    if not _is_integer(graph.opset):
        yield f"opset {graph.opset!r} is no integer"
    for entry in graph.import_domains or ():
        if not hasattr(entry, "domain") or not hasattr(entry, "version"):
            yield f"item {entry!r:.40} of 'import_domains' is no onnx.OperatorSetIdProto"
    for field in ("inputs", "outputs"):
        for index, t in enumerate(getattr(graph, field)):
            yield from _tensor_faults(t, f"item {index} of '{field}'")
    for index, node in enumerate(graph.nodes):
        if not isinstance(node, Node):
            yield f"item {index} of 'nodes' is a {type(node).__name__}, not a node"
            return
        place = f"node #{index} '{node.name}' ({node.op})"
        if not isinstance(node.op, str):
            yield f"{place}: the operator is a {type(node.op).__name__}, not text"
        if not isinstance(node.name, (str, type(None))):
            yield f"{place}: the name is a {type(node.name).__name__}, not text"
        if not isinstance(node.domain, (str, type(None))):
            yield f"{place}: the domain is a {type(node.domain).__name__}, not text"
        for t in (*node._inputs, *node._outputs):
            yield from _tensor_faults(t, f"a tensor of {place}")


def _tensor_faults(tensor: Any, place: str) -> Iterator[str]:
    if not isinstance(tensor, Tensor):
        yield f"{place} is a {type(tensor).__name__}{f' ({tensor!r:.40})' if isinstance(tensor, str) else ''}, not a tensor"
        return
    if not isinstance(tensor._name, str):
        yield f"{place} has a {type(tensor._name).__name__} for a name, not text"
    if isinstance(tensor, Constant):
        if not isinstance(tensor._values, (np.ndarray, LazyValues)):
            yield f"constant '{tensor._name}' has a {type(tensor._values).__name__} for values, not an array"
    elif tensor.shape is not None and (isinstance(tensor.shape, str) or not hasattr(tensor.shape, "__iter__")):
        yield f"tensor '{tensor._name}' has the shape {tensor.shape!r:.40}, which is no sequence of dims"


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer))


def _nesting(root: Graph) -> GraphError:
    """Say whether bodies hold themselves, nodes form a cycle, or bodies are just nested deeper than Python's stack allows."""
    try:
        deepest = max(walk.depth(start) for start in (root, *root.functions))
    except GraphError as error:
        return error
    try:
        order.require_acyclic(root)
    except GraphError as error:
        return error
    what = f"bodies are nested {deepest} deep, which is too deep for this"
    return GraphError(what, where=graph_label(root), fix="raise sys.setrecursionlimit, or nest bodies less")
