"""The invariants of a graph, each as one small check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.errors import GraphError
from onnx_gs.ir import walk
from onnx_gs.ir.faults import explained
from onnx_gs.ir.show import Places
from onnx_gs.ir.tensor import Constant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.tensor import Tensor


def problems(root: Graph) -> list[str]:
    """List what is wrong with a model's graph: broken links, two producers, wrong order, undefined or clashing names. Empty when sound.

    Example:
        >>> from onnx_gs.ir import Graph, Node, Variable
        >>> x, y = Variable("x"), Variable("y")
        >>> problems(Graph([Node("Neg", inputs=[x], outputs=[y])], outputs=[y]))
        ["graph 'onnx_graphsurgeon_graph' > node #0 (Neg): input 'x' is defined nowhere"]
    """
    with explained(root):
        return list(_problems(root))


def require_sound(root: Graph) -> None:
    """Raise the first thing that is wrong.

    Raises:
        GraphError: naming it and where it is.
    """
    with explained(root):
        first = next(_problems(root), None)
    if first is not None:
        where, _, what = first.partition(": ")
        raise GraphError(what, where=where)


def _problems(root: Graph) -> Iterator[str]:
    places = Places(root)
    yield from _links(root, places)
    for start in [root, *root.functions]:
        yield from _definitions(start, {}, places)


def _links(root: Graph, places: Places) -> Iterator[str]:
    for graph, node in walk.nodes(root, functions=True):
        for mine, theirs in (("_inputs", "_outputs"), ("_outputs", "_inputs")):
            for t in {id(t): t for t in getattr(node, mine)}.values():
                here = sum(1 for x in getattr(node, mine) if x is t)
                there = sum(1 for n in getattr(t, theirs) if n is node) if len(getattr(t, theirs)) < 1000 else here
                if here != there:
                    yield f"{places.node(graph, node)}: tensor '{t.name}' is linked {here} times here and {there} times there"


def _definitions(graph: Graph, outer: dict[str, Tensor], places: Places) -> Iterator[str]:
    scope = dict(outer) if len(outer) < 64 else _Chain(outer)
    own: dict[str, Tensor] = {}

    def define(t: Tensor, where: str, what: str) -> Iterator[str]:
        if not t.name:
            return
        if own.get(t.name) is not None:
            yield f"{where}: {what} '{t.name}' is defined twice"
        own[t.name] = t
        scope[t.name] = t

    for t in graph.inputs:
        yield from define(t, places.graph(graph), "input")
    for node in graph.nodes:
        where = None
        for t in node._inputs:
            if not t.name or isinstance(t, Constant):
                continue
            if scope.get(t.name) is not t:
                where = where or places.node(graph, node)
                late = any(p is not node and t in p._outputs for p in t._inputs)
                yield f"{where}: input '{t.name}' is {'produced later or out of reach' if late else 'defined nowhere'}"
        if node._attrs:
            for body in walk.bodies(node):
                yield from _definitions(body, scope, places)  # type: ignore[arg-type]
        for t in node._outputs:
            yield from define(t, where or "", "output") if t.name not in own else define(t, places.node(graph, node), "output")
    for t in graph.outputs:
        if isinstance(t, Constant) or not t.name:
            continue
        if own.get(t.name) is not t:
            yield f"{places.graph(graph)}: output '{t.name}' is not defined in the graph"


class _Chain:
    """A scope that looks through to the one around it."""

    def __init__(self, outer: object) -> None:
        self._own: dict[str, Tensor] = {}
        self._outer = outer

    def get(self, name: str) -> Tensor | None:
        found = self._own.get(name)
        return found if found is not None else self._outer.get(name)  # type: ignore[attr-defined]

    def __setitem__(self, name: str, t: Tensor) -> None:
        self._own[name] = t

    def __len__(self) -> int:
        return 1 << 20
