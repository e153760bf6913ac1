"""A graph's own edges as flat lists of numbers: what passes over whole graphs need, with every object touched once."""

from __future__ import annotations

from collections import deque
from functools import cached_property
from itertools import accumulate, chain, compress, count, pairwise, repeat
from operator import attrgetter, ge, lt
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnx_gs.ir.graph import Graph
    from onnx_gs.ir.tensor import Tensor

_NAME = attrgetter("_name")


class Edges:
    """What the nodes of one graph make and read, as it was when this was built; bodies are not looked into.

    A place is a position in ``made``. Over 100,000 nodes, most time goes into fetching objects from memory: so each list of links is read once,
    in C, and everything else works on places.

    Args:
        graph: the graph; edits after this are not seen.

    Attributes:
        nodes: the nodes, in the graph's order.
        made: the tensors that the nodes make, in order.
        read: the tensors that the nodes read, in order.
        names: the names of ``made``.
        made_at: the place of each tensor that is made and has a name, by id.
        read_at: for each entry of ``read`` its place, -1 where no node of the graph makes it.
        first_made: for each node where its outputs begin in ``made``, and the end.
        first_read: for each node where its inputs begin in ``read``, and the end.

    Example:
        >>> from onnx_gs.ir import Graph, Node, Variable
        >>> x, y, z = (Variable(name) for name in "xyz")
        >>> edges = Edges(Graph([Node("Neg", inputs=[x], outputs=[y]), Node("Add", inputs=[y, x], outputs=[z])]))
        >>> edges.read_at, edges.in_order(), [t.name for t in edges.strays.values()]
        ([-1, 0, -1], True, ['x'])
    """

    def __init__(self, graph: Graph) -> None:
        """Read all links."""
        self.nodes = graph.nodes
        outputs = [node._outputs for node in self.nodes]
        inputs = [node._inputs for node in self.nodes]
        self.made: list[Tensor] = [*chain.from_iterable(outputs)]
        self.read: list[Tensor] = [*chain.from_iterable(inputs)]
        self.names: list[str] = [*map(_NAME, self.made)]
        self.made_at: dict[int, int] = dict(zip(map(id, self.made), count()))
        if "" in self.names:  # what stands for an omitted output is no edge, even where one object stands for an omitted input too
            for t in self.made:
                if not t._name:
                    self.made_at.pop(id(t), None)
        self.read_at: list[int] = [*map(self.made_at.get, map(id, self.read), repeat(-1))]
        self.first_made: list[int] = [*accumulate(map(len, outputs), initial=0)]
        self.first_read: list[int] = [*accumulate(map(len, inputs), initial=0)]

    def in_order(self) -> bool:
        """Say whether every node reads only what nodes before it make."""
        sizes = [end - start for start, end in pairwise(self.first_read)]
        return not any(map(ge, self.read_at, chain.from_iterable(map(repeat, self.first_made, sizes))))

    @cached_property
    def strays(self) -> dict[int, Tensor]:
        """What the nodes read and none of them makes, by id; empty ones too."""
        found = [*compress(self.read, map(lt, self.read_at, repeat(0)))]
        return dict(zip(map(id, found), found))

    def makers(self) -> list[int]:
        """Give the position of the node that makes each entry of ``made``."""
        sizes = [end - start for start, end in pairwise(self.first_made)]
        return [*chain.from_iterable(map(repeat, count(), sizes))]

    def places(self, tensors: Iterable[Tensor]) -> list[int]:
        """Give the places of those tensors that the nodes make."""
        return [place for place in map(self.made_at.get, map(id, tensors)) if place is not None]


def clear_all(links: Iterable[list[Any]]) -> None:
    """Empty lists of links without touching the other ends of the edges."""
    deque(map(list.clear, links), maxlen=0)
