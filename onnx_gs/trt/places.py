"""Every node of a model with the path that errors show, and TensorRT's names traced back to it."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING

from onnx_gs.ir import show
from onnx_gs.ir.node import ONNX_DOMAINS

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from onnx_gs.ir import Function, Graph, Node


class Place:
    """One node and where it stands.

    Attributes:
        node: the node.
        owner: the graph, body or function that lists it.
        index: its position in its owner.
        outer: the places of the nodes whose bodies hold it, outermost first.
        function: the local function it stands in, if any.
    """

    __slots__ = ("_prefix", "function", "index", "node", "outer", "owner")

    def __init__(self, node: Node, owner: Graph, index: int, outer: tuple[Place, ...], function: Function | None, prefix: str) -> None:
        """Note the place; its path is spelled out when it is asked for."""
        self.node = node
        self.owner = owner
        self.index = index
        self.outer = outer
        self.function = function
        self._prefix = prefix

    @property
    def path(self) -> str:
        """The path, as in ``graph 'main' > node 'Loop_3' (Loop) > body > node #17 (Add)``."""
        return f"{self._prefix} > {show.node_label(self.owner, self.node, self.index)}"

    @property
    def tensorrt_name(self) -> str:
        """The name that TensorRT gives the node: its own, else one made of its first output."""
        if self.node.name:
            return self.node.name
        return "node_of_" + next((t.name for t in self.node.outputs if t.name), "")


def places(graph: Graph, skipped: AbstractSet[str] = frozenset()) -> list[Place]:
    """List every node of a model: each node before those in its bodies, local functions last.

    Args:
        graph: the model's graph.
        skipped: operators of ONNX's own that are left out, where they have no bodies.
    """
    found: list[Place] = []
    _add(found, graph, show.graph_label(graph), (), None, skipped)
    for function in graph.functions:
        _add(found, function, show.graph_label(function), (), function, skipped)
    return found


def _add(found: list[Place], graph: Graph, prefix: str, outer: tuple[Place, ...], function: Function | None, skipped: AbstractSet[str]) -> None:
    for index, node in enumerate(graph.nodes):
        if node.op in skipped and node.domain in ONNX_DOMAINS and not (node._attrs and node.has_body):
            continue
        place = Place(node, graph, index, outer, function, prefix)
        found.append(place)
        if node._attrs and node.has_body:
            for name, body in node.bodies():
                _add(found, body, f"{place.path} > {name}", (*outer, place), function, skipped)


class NodeIndex:
    """Nodes by the names under which TensorRT speaks of them."""

    def __init__(self, graph: Graph) -> None:
        """Keep the model; it is walked when something is asked."""
        self.graph = graph

    @cached_property
    def all(self) -> list[Place]:
        """The places of all nodes."""
        return places(self.graph)

    @cached_property
    def by_node(self) -> dict[int, Place]:
        """Places by the identity of the node."""
        return {id(place.node): place for place in self.all}

    @cached_property
    def by_name(self) -> dict[str, list[Place]]:
        """Places by TensorRT's name of the node."""
        found: dict[str, list[Place]] = {}
        for place in self.all:
            found.setdefault(place.tensorrt_name, []).append(place)
        return found

    @cached_property
    def by_output(self) -> dict[str, list[Place]]:
        """Places by the names of the node's outputs."""
        found: dict[str, list[Place]] = {}
        for place in self.all:
            for tensor in place.node.outputs:
                if tensor.name:
                    found.setdefault(tensor.name, []).append(place)
        return found

    def of_parser(self, name: str, op: str, index: int, text: str) -> Place | None:
        """Find the node of a parser error.

        Args:
            name: ``node_name()``: empty for a node without a name.
            op: ``node_operator()``.
            index: ``node()``, the position in its graph; -1 where unknown.
            text: the message, which may name the node.
        """
        for known in filter(None, (name, *re.findall(r"node_of_\S+", text))):
            found = [p for p in self.by_name.get(known, ()) if not op or p.node.op == op]
            if found:
                return found[0]
        fitting = [p for p in self.all if p.node.op == op and (not name or p.node.name == name)]
        if len(fitting) == 1:
            return fitting[0]
        fitting = [p for p in fitting if p.index == index]
        return fitting[0] if fitting else None

    def of_text(self, text: str, layers: dict[str, str] | None = None) -> Place | None:
        """Find the first node that a builder's message names.

        Args:
            text: the message.
            layers: the ONNX node's name by layer name, for layers that TensorRT made itself.
        """
        for layer in re.findall(r"\(Unnamed Layer\* \d+\) \[\w+\]", text):
            for place in self.by_name.get((layers or {}).get(layer, ""), ()):
                return place
        for word in _words(text):
            if layers is not None and word in layers and layers[word] in self.by_name:
                return self.by_name[layers[word]][0]
            for known in (word, _without_suffix(word)):
                if known in self.by_name:
                    return self.by_name[known][0]
        for word in _words(text):
            if word in self.by_output:
                return self.by_output[word][0]
        return None


#: Endings that TensorRT adds to a node's name for the layers it makes of it.
_SUFFIX = re.compile(r"(_OutputLayer|_InputLayer|_output|\[\w+\])$")


def _without_suffix(word: str) -> str:
    return _SUFFIX.sub("", word)


def _words(text: str) -> list[str]:
    """Split a message into what may be names: TensorRT writes them bare, in brackets, or joined by ``...`` and ``+``."""
    words = re.split(r"[\s,;()]+|\.\.\.|[\[\]{}]", text)
    return [w for word in words if (w := word.strip(":'\"."))]
