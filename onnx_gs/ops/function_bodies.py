"""Operators that ONNX defines by other operators: their bodies as functions, those that depend on a node's attributes and types included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx
import onnx.defs

from onnx_gs.io.exporter import export_onnx
from onnx_gs.io.importer import Importer
from onnx_gs.ir import Function, Graph, Node, Variable
from onnx_gs.ops import domains
from onnx_gs.ops.schema import find

if TYPE_CHECKING:
    from onnx_gs.ir import Tensor


def body(graph: Graph, node: Node, graph_type: type[Graph] = Graph) -> Function | None:
    """Give the function by which ONNX defines a node's operator at the graph's opset; None where it defines none for this node.

    Args:
        graph: the graph that holds the node.
        node: the node; some operators have a body that depends on its attributes and on the types of its inputs.
        graph_type: the class of graphs inside the function.

    Returns:
        A new function, whose inputs and outputs are those of the operator, in order, and whose attributes have the operator's defaults.
    """
    domain = domains.canonical(node.domain)
    version = domains.version(graph, domain)
    if version is None:
        return None
    try:
        schema = onnx.defs.get_schema(node.op, version, domain)
    except onnx.defs.SchemaError:
        return None
    proto = _plain(schema, version) or _for_node(schema, version, graph, node)
    if proto is None:
        return None
    opset = next((e.version for e in proto.opset_import if domains.canonical(e.domain) == ""), graph.opset)
    function = Importer(graph_type, Function).function(proto, opset, list(proto.opset_import))
    known = find(node.op, version, domain)
    for name, attribute in known.attributes.items() if known is not None else ():
        if function.attrs.get(name) is None:
            function.attrs[name] = attribute.default
    return function


def _plain(schema: Any, version: int) -> onnx.FunctionProto | None:
    if not schema.has_function:
        return None
    known = [v for v in getattr(schema, "function_opset_versions", ()) if v <= version]
    if known:
        stored = schema.get_function_with_opset_version(max(known))
        if stored:
            proto = onnx.FunctionProto()
            proto.ParseFromString(stored)
            return proto
    found = schema.function_body
    return found if found is not None and len(found.node) else None


def _for_node(schema: Any, version: int, graph: Graph, node: Node) -> onnx.FunctionProto | None:
    if not getattr(schema, "has_context_dependent_function", False):
        return None
    known = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    types = [_type(t) for t in node.inputs]
    if not known or any(t is None for t in types):
        return None
    stored = schema.get_context_dependent_function_with_opset_version(max(known), _message(graph, node).SerializeToString(), types)
    if not stored:
        return None
    proto = onnx.FunctionProto()
    proto.ParseFromString(stored)
    return proto if len(proto.node) else None


def _type(tensor: Tensor) -> bytes | None:
    """Give a tensor's type as a serialized message; empty for an omitted one, None where the element type is not known."""
    if tensor.is_empty():
        return b""
    described = _message_of_type(tensor)
    return bytes(described.SerializeToString()) if described.WhichOneof("value") is not None else None


def _message_of_type(tensor: Tensor) -> onnx.TypeProto:
    copy = Variable(tensor.name, tensor.dtype, tensor.shape)
    if isinstance(tensor, Variable) and tensor.type != "tensor_type":
        copy.value_type = tensor.value_type
    return export_onnx(Graph(inputs=[copy], opset=18), do_type_check=False).graph.input[0].type


def _message(graph: Graph, node: Node) -> onnx.NodeProto:
    """Give a node as a message; it is exported alone, between variables of its tensors' names."""

    def stand_in(tensor: Tensor) -> Tensor:
        return Variable.empty() if tensor.is_empty() else Variable(tensor.name)

    alone = node.copy([stand_in(t) for t in node.inputs], [stand_in(t) for t in node.outputs])
    holder = Graph([alone], opset=graph.opset, import_domains=graph.import_domains)
    return export_onnx(holder, do_type_check=False).graph.node[0]
