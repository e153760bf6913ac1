"""Graphs to messages for running and inferring: no weights inside, and names that are unique over all scopes.

Every tensor object gets a name of its own, so scopes, shadowed names and captures need no care, and what comes back is found by that name.
Unlike export this makes nothing for keeping: no doc strings, no metadata, no record of an import.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import onnx
import onnx.defs

from onnx_gs.io import attributes, tensor_data, types
from onnx_gs.io.exporter import Exporter
from onnx_gs.ir import dtypes, tensor as _tensor, walk
from onnx_gs.ir.node import ONNX_DOMAINS
from onnx_gs.ir.tensor import Constant, Variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from onnx_gs.ir import Function, Graph, Node, Tensor
    from onnx_gs.ir.types import ValueType

_UNREAD = _tensor._UNREAD
_DIMS = frozenset({int, str, type(None)})
#: A version of the format that every supported runtime reads and that has all element types that they run.
IR_VERSION = 10


class StructureWriter:
    """Writes nodes and graphs into messages under unique names, and collects the weights and functions that they need.

    Args:
        weightless_nodes: what ``Constant`` nodes hold is a weight too, and the node is left out; gives the stand-in for such a node's output, or
            None to write the node as it is.
        leaves_out: says which nodes of other domains than ONNX's are not written at all.
    """

    def __init__(
        self, weightless_nodes: Callable[[Node], Constant | None] | None = None, leaves_out: Callable[[Node], bool] | None = None
    ) -> None:
        """Start with nothing named."""
        self.named: dict[int, str] = {}
        self.tensors: dict[str, Tensor] = {}
        self.nodes_by_name: dict[str, Node] = {}
        self.weights: dict[str, Constant] = {}
        self.stand_ins: dict[int, Constant] = {}
        self.called: set[tuple[str, str]] = set()
        self._weightless_nodes = weightless_nodes
        self._leaves_out = leaves_out
        self._encoder = attributes.Encoder(self._body, self._weight)
        self._plain = Exporter(check=False)
        self._returned = 0
        self._types: dict[tuple[Any, ...], onnx.TypeProto] = {}
        self.bodies = 0  # how many were written

    def name(self, tensor: Tensor) -> str:
        """Give the unique name of a tensor; empty for an omitted one. A weight is noted for the caller to provide."""
        found = self.named.get(id(tensor))
        if found is not None:
            return found
        if not tensor._name:
            return ""
        found = f"gs_t{len(self.tensors)}"
        self.named[id(tensor)] = found
        self.tensors[found] = tensor
        if tensor.__class__ is not Variable:
            if isinstance(tensor, Constant):
                self.weights[found] = tensor
        elif self._weightless_nodes is not None and tensor._inputs and tensor._inputs[0].op == "Constant":
            stand_in = self._weightless_nodes(tensor._inputs[0])
            if stand_in is not None:
                self.weights[found] = stand_in
                self.stand_ins[id(tensor)] = stand_in
        return found

    # -- nodes ------------------------------------------------------------------------------------

    def nodes(self, nodes: Iterable[Node], target: Any) -> None:
        """Write nodes into a repeated ``NodeProto``."""
        name, known, skip = self.name, self.named.get, self._weightless_nodes is not None
        by_name = self.nodes_by_name
        for node in nodes:
            op = node.op
            if skip and op == "Constant" and len(node._outputs) == 1:
                name(node._outputs[0])
                if id(node._outputs[0]) in self.stand_ins:
                    continue
            if node.domain and self._leaves_out is not None and node.domain not in ONNX_DOMAINS and self._leaves_out(node):
                continue
            message = target.add()
            message.op_type = op
            label = f"gs_n{len(by_name)}"
            message.name = label
            by_name[label] = node
            message.input.extend([known(id(t)) or name(t) for t in node._inputs])
            message.output.extend([known(id(t)) or name(t) or self._omitted(node, at) for at, t in enumerate(node._outputs)])
            domain = node.domain
            if domain and domain not in ONNX_DOMAINS:
                message.domain = domain
                self.called.add((domain, op))
            attrs = node._attrs
            if attrs is None:
                message.attribute.extend(node._source.attribute)
            elif attrs:
                for key, value in attrs.items():
                    self._encoder.encode(message.attribute.add(), key, value, op)
            if domain and node.overload:
                message.overload = node.overload

    def _omitted(self, node: Node, position: int) -> str:
        """Give the name of an omitted output: empty, but for one that the operator has to give, which runtimes want named."""
        if node.domain not in ONNX_DOMAINS or position >= _required_outputs(node.op):
            return ""
        self._returned += 1
        return f"gs_o{self._returned - 1}"

    def _weight(self, tensor: Constant, target: Any) -> None:
        self._plain.weights.write(tensor, target)

    def _body(self, graph: Graph, target: Any) -> None:
        target.Clear()
        self.bodies += 1
        self.graph(graph, target, is_body=True)

    # -- graphs -----------------------------------------------------------------------------------

    def graph(self, graph: Graph, target: Any, *, typed: bool = True, is_body: bool = False) -> None:
        """Write a graph or body: inputs, nodes, outputs, and with ``typed`` what is known of the values inside.

        Weights are not written; the caller puts them into the outermost graph, from where all scopes see them.
        """
        target.name = graph.name or "g"
        for t in graph.inputs:
            if not isinstance(t, Constant):
                self.value(t, target.input.add())
        self.nodes(graph.nodes, target.node)
        listed = {id(t) for t in graph.inputs}
        defined = listed.union(id(t) for node in graph.nodes for t in node._outputs) if is_body else None
        for t in graph.outputs:
            output = target.output.add()
            self.value(t, output)
            if defined is not None and (id(t) not in defined or id(t) in self.stand_ins or id(t) in listed):
                # a body returns what it makes itself: a weight, a captured value or a value twice goes through a node
                output.name = f"gs_o{self._returned}"
                self._returned += 1
                target.node.add(op_type="Identity", input=[self.name(t)], output=[output.name])
            else:
                listed.add(id(t))
        if not typed:
            return
        for node in graph.nodes:
            for t in node._outputs:
                if (t._source is not None or t._dtype is not None) and id(t) not in listed and t._name:
                    self.value(t, target.value_info.add())

    def value(self, tensor: Tensor, target: Any) -> None:
        """Describe a value under its unique name, as far as its type is known."""
        target.name = self.name(tensor)
        source = tensor._source
        if source is not None and tensor._dtype is _UNREAD and tensor._shape is _UNREAD and isinstance(source, onnx.ValueInfoProto):
            target.type.CopyFrom(source.type)
            return
        shape = tensor._shape
        if tensor._type == "tensor_type" and isinstance(shape, (list, tuple)) and _DIMS.issuperset(map(type, shape)):  # others have the same type
            key = (tensor.dtype, *shape)
            written = self._types.get(key)
            if written is None:
                written = self._types[key] = onnx.TypeProto()
                _write_type(written, tensor)
            target.type.CopyFrom(written)
        else:
            _write_type(target.type, tensor)

    # -- models -----------------------------------------------------------------------------------

    def model(self, graph: Graph) -> onnx.ModelProto:
        """Give a model whose graph is still empty: format version, opset imports."""
        model = onnx.ModelProto()
        model.ir_version = min(IR_VERSION, onnx.IR_VERSION)
        model.graph.name = graph.name or "g"
        for domain, version in opsets(graph).items():
            entry = model.opset_import.add()
            entry.domain, entry.version = domain, version
        return model

    def finish(self, model: onnx.ModelProto, functions: Sequence[Function]) -> None:
        """Add the functions that the nodes call, and the opset imports that they need."""
        present = {entry.domain for entry in model.opset_import}
        wanted = reachable_functions(functions, self.called)
        for function in wanted:
            self._plain.function(function, model.functions.add())
        for domain in sorted({d for d, _ in self.called} - present):
            entry = model.opset_import.add()
            entry.domain, entry.version = domain, 1


@cache
def _required_outputs(op: str) -> int:
    try:
        return int(onnx.defs.get_schema(op).min_output)
    except onnx.defs.SchemaError:
        return 0


def _write_type(target: Any, tensor: Tensor) -> None:
    known = types.type_of(tensor)
    if known is not None and _is_typed(known):
        types.write(target, known)


def _is_typed(known: ValueType) -> bool:
    if known.kind in {"sequence_type", "optional_type"}:
        return known.element is not None and _is_typed(known.element)
    return known.kind != "tensor_type" or dtypes.find(known.dtype) is not None


def opsets(graph: Graph) -> Mapping[str, int]:
    """Give the versions of the domains that a graph imports, ONNX's own under ``""``."""
    return graph.opset_versions()


def reachable_functions(functions: Sequence[Function], called: Iterable[tuple[str, str]]) -> list[Function]:
    """List the functions among ``functions`` that calls of these (domain, operator) reach, overloads included."""
    by_id: dict[tuple[str, str], list[Function]] = {}
    for function in functions:
        by_id.setdefault((function.domain or "", function.name), []).append(function)
    found: dict[int, Function] = {}
    pending = [f for key in called for f in by_id.get(key, ())]
    while pending:
        function = pending.pop()
        if id(function) in found:
            continue
        found[id(function)] = function
        for _, node in walk.nodes(function):
            pending.extend(by_id.get((node.domain or "", node.op), ()))
    return [f for f in functions if id(f) in found]


def inline(name: str, values: Any, target: Any) -> None:
    """Write an array into a ``TensorProto`` under a name."""
    tensor_data.write(target, values, tensor_data.known_of(values, name), name)
