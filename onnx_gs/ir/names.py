"""Fresh names, unique within a model: tensors, nodes and bodies of every depth."""

from __future__ import annotations

from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING

from onnx_gs.ir import walk

if TYPE_CHECKING:
    from onnx_gs.ir.graph import Graph

_NAME, _NODE_NAME, _INPUTS, _OUTPUTS = map(attrgetter, ("_name", "name", "_inputs", "_outputs"))


class Names:
    """The names that a model uses, and fresh ones that it does not.

    Args:
        root: the model's graph; its functions' names are not used, as they are scopes of their own.

    Example:
        >>> from onnx_gs.ir import Graph, Variable
        >>> names = Names(Graph(inputs=[Variable("x")]))
        >>> names.fresh("x"), names.fresh("x"), names.fresh("y")
        ('x_1', 'x_2', 'y')
    """

    def __init__(self, root: Graph) -> None:
        """Collect every name below ``root``."""
        self.used: set[str] = set()
        self._next: dict[str, int] = {}
        for graph in walk.graphs(root):
            self.add(graph)

    def add(self, graph: Graph) -> None:
        """Note the names that one graph itself uses, unused weights of its import included."""
        used = self.used
        used.update(t._name for t in graph.inputs)
        used.update(t._name for t in graph.outputs)
        nodes = graph.nodes
        used.update(map(_NODE_NAME, nodes))
        used.update(map(_NAME, chain.from_iterable(map(_INPUTS, nodes))))
        used.update(map(_NAME, chain.from_iterable(map(_OUTPUTS, nodes))))
        if graph._record is not None:
            used.update(map(_NAME, graph._record.initializers))

    def fresh(self, wish: str) -> str:
        """Give ``wish`` if it is free, else ``wish_1``, ``wish_2``, …; the name is taken from then on."""
        name = wish or "unnamed"
        base = name
        count = self._next.get(base, 0)
        while name in self.used:
            count += 1
            name = f"{base}_{count}"
        self._next[base] = count
        self.used.add(name)
        return name
