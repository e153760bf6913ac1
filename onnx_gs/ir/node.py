"""Nodes: one application of an operator or function."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.ir import source
from onnx_gs.ir.attribute import AttributeRef as _AttributeRef
from onnx_gs.ir.synchronized_list import SynchronizedList, linked
from onnx_gs.ir.tensor import Constant, Tensor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from onnx_gs.ir.graph import Graph

#: Domains that mean ONNX's own operators.
ONNX_DOMAINS = frozenset({None, "", "ai.onnx"})

_new: Any = object.__new__
_new_list: Any = SynchronizedList.__new__


class Node:
    """An operator applied to tensors.

    Args:
        op: operator type, such as ``"Relu"``.
        name: node name, may be empty.
        attrs: attribute values by name: int, float, str, bytes, lists of these, ``Tensor``, ``Graph``, ``Node.AttributeRef``, …; kept as is.
        inputs: tensors read; an omitted optional one is ``Variable.empty()``.
        outputs: tensors produced.
        domain: operator domain; None and ``""`` are ONNX's own.

    Example:
        >>> from onnx_gs.ir import Variable
        >>> node = Node("Add", inputs=[Variable("a"), Variable("b")], outputs=[Variable("c")])
        >>> node.inputs[0].outputs[0] is node
        True
    """

    AttributeRef = _AttributeRef
    _is_node = True

    __slots__ = ("__dict__", "__weakref__", "_attrs", "_facts", "_inputs", "_outputs", "_source", "domain", "name", "op")

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        op: str,
        name: str | None = None,
        attrs: Mapping[str, Any] | None = None,
        inputs: Iterable[Tensor] | None = None,
        outputs: Iterable[Tensor] | None = None,
        domain: str | None = None,
    ) -> None:
        """Make a node and link its tensors."""
        self.op = op
        self.name = name if name is not None else ""
        self.domain = domain
        self._attrs: Any = attrs if attrs is not None else OrderedDict()
        self._source: Any = None
        self._facts: dict[str, Any] | None = None
        self._inputs: SynchronizedList[Tensor] = linked(self, "inputs")
        self._outputs: SynchronizedList[Tensor] = linked(self, "outputs")
        if inputs is not None:
            self._inputs.extend(inputs)
        if outputs is not None:
            self._outputs.extend(outputs)

    # -- fields -----------------------------------------------------------------------------------

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes by name, in order; those of an import are decoded here on first use."""
        if self._attrs is None:
            self._attrs = source.codec().attributes(self._source)
        return self._attrs  # type: ignore[no-any-return]

    @attrs.setter
    def attrs(self, new: Mapping[str, Any] | None) -> None:
        self._attrs = new if new is not None else OrderedDict()  # None stands for attributes that are still in the message

    @property
    def inputs(self) -> SynchronizedList[Tensor]:
        """The tensors read, in order."""
        return self._inputs

    @inputs.setter
    def inputs(self, new: Iterable[Tensor]) -> None:
        if new is not self._inputs:
            self._inputs[:] = new

    @property
    def outputs(self) -> SynchronizedList[Tensor]:
        """The tensors produced, in order."""
        return self._outputs

    @outputs.setter
    def outputs(self, new: Iterable[Tensor]) -> None:
        if new is not self._outputs:
            self._outputs[:] = new

    def facts(self) -> dict[str, Any]:
        """Give what a node carries beside operator and edges: ``doc_string``, ``overload``, ``metadata_props``; edit it in place."""
        if self._facts is None:
            self._facts = {} if self._source is None else source.codec().node_facts(self._source)
        return self._facts

    @property
    def doc_string(self) -> str:
        """The note that the model carries about this node."""
        return str(self.facts().get("doc_string", ""))

    @doc_string.setter
    def doc_string(self, new: str) -> None:
        self.facts()["doc_string"] = new

    @property
    def overload(self) -> str:
        """Which overload of a local function is called; empty for the only one."""
        return "" if self._source is None and self._facts is None else str(self.facts().get("overload", ""))

    @overload.setter
    def overload(self, new: str) -> None:
        self.facts()["overload"] = new

    @property
    def metadata_props(self) -> dict[str, str]:
        """Metadata by key; edit it in place."""
        return self.facts().setdefault("metadata_props", {})  # type: ignore[no-any-return]

    @property
    def is_onnx(self) -> bool:
        """Say whether the operator is one of ONNX's own domain."""
        return self.domain in ONNX_DOMAINS

    # -- walking ----------------------------------------------------------------------------------

    def i(self, tensor_idx: int = 0, producer_idx: int = 0) -> Node:
        """Give the producer of an input: ``self.inputs[tensor_idx].inputs[producer_idx]``."""
        return self.inputs[tensor_idx].inputs[producer_idx]

    def o(self, consumer_idx: int = 0, tensor_idx: int = 0) -> Node:
        """Give a consumer of an output: ``self.outputs[tensor_idx].outputs[consumer_idx]``."""
        return self.outputs[tensor_idx].outputs[consumer_idx]

    @property
    def has_body(self) -> bool:
        """Say whether an attribute holds a graph; nothing is decoded, as importing decodes nodes with bodies."""
        attrs = self._attrs
        return bool(attrs) and not _all_plain(attrs) and any(True for _ in _graphs(attrs))

    def bodies(self) -> list[tuple[str, Graph]]:
        """List the graphs that the attributes hold, with the attribute's name (``name[k]`` in a list of graphs)."""
        attrs = self._attrs
        return [] if not attrs or _all_plain(attrs) else list(_graphs(attrs))

    def subgraphs(self, recursive: bool = False) -> Iterator[Graph]:
        """Give the graphs in the attributes, each object once.

        Args:
            recursive: also those inside them.
        """
        seen: set[int] = set()
        pending: list[Node] = [self]
        while pending:
            following: list[Node] = []
            for node in pending:
                for _, body in node.bodies():
                    if id(body) in seen:
                        continue
                    seen.add(id(body))
                    yield body
                    following.extend(body.nodes)
            pending = following if recursive else []

    # -- copies and comparison --------------------------------------------------------------------

    def copy(
        self,
        inputs: Iterable[Tensor] | None = None,
        outputs: Iterable[Tensor] | None = None,
        tensor_map: Mapping[str, Tensor] | None = None,
    ) -> Node:
        """Give a node of the same operator, name, domain and attribute values, linked to the given tensors only.

        Args:
            inputs: what the copy reads; by default nothing.
            outputs: what the copy produces; by default nothing.
            tensor_map: outer tensors by name, which the copies of bodies read instead of those of the original.
        """
        new = self._twin()
        if new._attrs:
            from onnx_gs.ir.copying import copy_bodies

            copy_bodies(new, tensor_map)
        if inputs is not None:
            new._inputs.extend(inputs)
        if outputs is not None:
            new._outputs.extend(outputs)
        return new

    def _twin(self) -> Node:
        """Copy everything but the links; bodies are shared until the caller replaces them."""
        new = _new(type(self))  # slot by slot: copies of whole graphs spend their time here
        new.op = self.op
        new.name = self.name
        new.domain = self.domain
        attrs = self._attrs
        new._attrs = None if attrs is None else OrderedDict(attrs)
        new._source = self._source
        facts = self._facts
        new._facts = None if facts is None else {k: dict(v) if isinstance(v, dict) else v for k, v in facts.items()}
        links = new._inputs = _new_list(SynchronizedList)
        links.parent_obj = new
        links.field_name = "inputs"
        links = new._outputs = _new_list(SynchronizedList)
        links.parent_obj = new
        links.field_name = "outputs"
        return new  # type: ignore[no-any-return]

    def __copy__(self) -> Node:
        """Give the node with fresh, otherwise unlinked copies of its tensors."""
        return self._standalone(deep=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Node:
        """Give the node with fresh, otherwise unlinked copies of its tensors, bodies and attribute values."""
        return self._standalone(deep=True)

    def _standalone(self, *, deep: bool) -> Node:
        from copy import deepcopy

        made: dict[int, Tensor] = {}

        def fresh(tensors: Iterable[Tensor]) -> list[Tensor]:
            return [made.setdefault(id(t), made.get(id(t)) or (deepcopy(t) if deep else t.copy())) for t in tensors]

        inputs, outputs = fresh(self._inputs), fresh(self._outputs)
        new = self.copy(inputs, outputs, {t.name: t for t in inputs})
        if deep and new._attrs:
            for name, value in new._attrs.items():
                if not is_graph(value) and not (isinstance(value, list) and any(is_graph(v) for v in value)):
                    new._attrs[name] = deepcopy(value)
        return new

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the node with unlinked copies of its tensors."""
        from onnx_gs.ir.pickling import pickle_node

        return pickle_node(self)

    def __eq__(self, other: object) -> bool:
        """Compare operator, name, domain, attributes, and the names of inputs and outputs."""
        if self is other:
            return True
        pending: list[tuple[Any, Any]] = []
        return isinstance(other, Node) and self._matches(other, pending) and all_match(pending)

    def _matches(self, other: Node, pending: list[tuple[Any, Any]]) -> bool:
        """Compare all but bodies, whose pairs are added to ``pending``."""
        return (
            (self.op, self.name, self.domain) == (other.op, other.name, other.domain)
            and [t._name for t in self.inputs] == [t._name for t in other.inputs]
            and [t._name for t in self.outputs] == [t._name for t in other.outputs]
            and same_value(self.attrs, other.attrs, pending)
        )

    def __str__(self) -> str:
        """Show name, operator, inputs, outputs, attributes and domain."""
        return joined(self)

    def _pieces(self) -> Iterator[Any]:
        """Give the text in pieces; a graph stands for its own."""
        lines = [f"{self.name} ({self.op})"]
        for title, tensors in (("Inputs", self.inputs), ("Outputs", self.outputs)):
            lines.append(f"\t{title}: [")
            lines.extend(f"\t\t{t}" for t in tensors)
            lines.append("\t]")
        yield "\n".join(lines)
        if self.attrs:
            yield "\nAttributes: {"
            for index, (name, value) in enumerate(self.attrs.items()):
                yield f"{', ' if index else ''}{name!r}: "
                yield from _value_pieces(value)
            yield "}"
        if self.domain is not None:
            yield f"\nDomain: {self.domain}"

    __repr__ = __str__


def is_graph(value: Any) -> bool:
    """Say whether an attribute value is a graph, without importing the graph class (which imports this module)."""
    return hasattr(value, "nodes") and hasattr(value, "_record")


_PLAIN = frozenset({int, float, str, bytes, bool, Constant})  # what most attributes are: nothing to look into


def _all_plain(attrs: Mapping[str, Any]) -> bool:
    """Say at a glance that no attribute holds a graph; ONNX has no mixed lists."""
    for value in attrs.values():
        kind = type(value)
        if kind not in _PLAIN and not (kind is list and (not value or type(value[0]) in _PLAIN)):
            return False
    return True


def with_bodies(nodes: Iterable[Node]) -> list[Node]:
    """List the nodes that hold graphs in their attributes: in one loop, as a walk asks this of every node of a model."""
    plain = _PLAIN
    found: list[Node] = []
    for node in nodes:
        if node._attrs:
            for value in node._attrs.values():
                kind = type(value)
                if kind in plain or (kind is list and (not value or type(value[0]) in plain)):
                    continue
                if node.has_body:
                    found.append(node)
                break
    return found


def _graphs(attrs: Mapping[str, Any]) -> Iterator[tuple[str, Graph]]:
    for name, value in attrs.items():
        kind = type(value)
        if kind in _PLAIN:
            continue
        if is_graph(value):
            yield name, value
        elif isinstance(value, (list, tuple)):
            if value and type(value[0]) in _PLAIN:
                continue  # ONNX has no mixed lists
            for k, item in enumerate(value):
                if is_graph(item):
                    yield f"{name}[{k}]", item


def _value_pieces(value: Any) -> Iterator[Any]:
    if is_graph(value):
        yield value
    elif type(value) is list and any(is_graph(item) for item in value):
        yield "["
        for index, item in enumerate(value):
            yield ", " if index else ""
            yield item if is_graph(item) else repr(item)
        yield "]"
    else:
        yield repr(value)


def joined(shown: Any) -> str:
    """Give the text of a node or graph from its pieces, however deep bodies are nested."""
    text: list[str] = []
    stack: list[tuple[int, Iterator[Any]]] = [(id(shown), shown._pieces())]
    above = {id(shown)}
    while stack:
        piece = next(stack[-1][1], None)
        if piece is None:
            above.discard(stack.pop()[0])
        elif isinstance(piece, str):
            text.append(piece)
        elif id(piece) in above:
            text.append("...")  # a body that holds itself
        else:
            above.add(id(piece))
            stack.append((id(piece), piece._pieces()))
    return "".join(text)


def all_match(pending: list[tuple[Any, Any]]) -> bool:
    """Compare pairs of graphs, and those of the bodies inside them, however deep they are nested."""
    seen: dict[tuple[int, int], tuple[Any, Any]] = {}
    while pending:
        a, b = pending.pop()
        if a is b or (id(a), id(b)) in seen:
            continue
        seen[id(a), id(b)] = (a, b)
        if not a._matches(b, pending):
            return False
    return True


def same_value(a: Any, b: Any, pending: list[tuple[Any, Any]] | None = None) -> bool:
    """Compare two attribute values: arrays by content, tensors by name and, where both are constants, content.

    Args:
        a: one.
        b: the other.
        pending: where pairs of graphs go that the caller compares, for depth's sake; None to compare them here.
    """
    if a is b:
        return True
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_value(a[k], b[k], pending) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same_value(x, y, pending) for x, y in zip(a, b))
    if pending is not None and is_graph(a) and is_graph(b):
        pending.append((a, b))
        return True
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape and bool(np.array_equal(a, b))
    if isinstance(a, float) and isinstance(b, float) and a != a and b != b:  # noqa: PLR0124 - NaN equals NaN here
        return True
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if hasattr(a, "values") and hasattr(b, "values"):
            return a.dtype == b.dtype and a.shape == b.shape and (a.values is b.values or same_value(np.asarray(a.values), np.asarray(b.values)))
        return a == b
    try:
        return bool(a == b)
    except (ValueError, TypeError):
        return False
