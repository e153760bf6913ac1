"""What a look at a model's message tells, so that no graph has to be built for a question about the whole of it.

Asking messages one by one takes as long as building a graph, nearly. So the parser is asked instead: it reads the message again by a schema of
ours in which the nodes are *one* message, and so are the weights. What is repeated it merges, and gives the names of all nodes as flat lists.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any, NamedTuple

import onnx
import onnx.defs
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from onnx_gs.io import importer, tensor_data
from onnx_gs.io.plain_ops import PLAIN
from onnx_gs.ir.node import ONNX_DOMAINS


class Glance(NamedTuple):
    """A model of ONNX's own operators and of tensors, without bodies or functions.

    Attributes:
        operators: what its nodes are.
        types: numbers of the element types of its inputs and weights.
        rank: the most dims among them.
        opset: the version of ONNX's operators.
    """

    operators: frozenset[str]
    types: frozenset[int]
    rank: int
    opset: int


def glance(model: onnx.ModelProto) -> Glance | None:
    """Look at a model's message.

    Returns:
        What it tells; None where only the graph can tell: bodies, functions, operators of other domains, attributes that hold weights, weights in
        other files, an interface of anything but tensors of known rank, or none; and where something is not valid: a name that is made twice or
        nowhere, too few or too many inputs, outputs or attributes.
    """
    opset = importer.opset_of(model)
    graph = model.graph
    if opset is None or len(getattr(model, "functions", ())) or len(graph.sparse_initializer):
        return None
    entering = {_kind(value) for value in graph.input}
    leaving = {_kind(value) for value in graph.output}
    if None in entering or None in leaving or not leaving:
        return None
    flat = _flat_class()()
    flat.ParseFromString(graph.SerializeToString())
    nodes, weights = flat.node, flat.initializer
    operators, reads, makes = Counter(nodes.op_type[:]), nodes.input[:], nodes.output[:]
    if not PLAIN.issuperset(operators) or not ONNX_DOMAINS.issuperset(nodes.domain[:]):
        return None
    if tensor_data.EXTERNAL in weights.data_location[:]:
        return None
    attributes = nodes.attribute.name[:]
    if bytes in map(type, attributes) or not _may_be_well_formed(operators, len(reads), len(makes), Counter(attributes), opset):
        return None
    known = set(makes)
    if len(known) < len(makes) or "" in known or bytes in map(type, known):
        return None
    known.update(weights.name[:], [value.name for value in graph.input])
    if not known.issuperset(reads) or not known.issuperset([value.name for value in graph.output]):
        return None
    types = {number for number, _ in entering}.union(weights.data_type[:])
    rank = max((*(rank for _, rank in entering), *{len(weight.dims) for weight in graph.initializer}), default=0)
    return Glance(frozenset(operators), frozenset(types), rank, opset)


def _may_be_well_formed(operators: Counter[str], reads: int, makes: int, attributes: Counter[str], opset: int) -> bool:
    """Say whether all nodes together have as much as the definitions of their operators ask for."""
    least = Counter[str]()
    most = Counter[str]()
    needed = Counter[str]()
    for op, count in operators.items():
        try:
            schema = onnx.defs.get_schema(op, opset)
        except onnx.defs.SchemaError:
            return False
        least.update(reads=count * schema.min_input, makes=count * schema.min_output)
        most.update(reads=count * schema.max_input, makes=count * schema.max_output)
        needed.update({name: count for name, attribute in schema.attributes.items() if attribute.required})
    enough = least["reads"] <= reads <= most["reads"] and least["makes"] <= makes <= most["makes"]
    return enough and all(attributes[name] >= count for name, count in needed.items())


def _kind(value: Any) -> Any:
    """Give element type and rank of an input or output; None where it is no tensor, or does not say them."""
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        return None
    return value.type.tensor_type.elem_type, len(value.type.tensor_type.shape.dim)


_PACKAGE = "onnx_gs_flat"


@cache
def _flat_class() -> Any:
    """Make a twin of ``GraphProto`` in which nodes, their attributes and weights are one message each, and their fields are lists."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto2")
    messages: dict[str, dict[str, str | int]] = {
        "Attribute": {"name": kinds.TYPE_STRING},
        "Node": dict.fromkeys(("input", "output", "op_type", "domain"), kinds.TYPE_STRING) | {"attribute": "Attribute"},
        "Tensor": {"name": kinds.TYPE_STRING, "data_type": kinds.TYPE_INT32, "data_location": kinds.TYPE_INT32},
        "Graph": {"node": "Node", "initializer": "Tensor"},
    }
    for name, fields in messages.items():
        known = getattr(onnx, f"{name}Proto").DESCRIPTOR.fields_by_name
        twin = file.message_type.add(name=name)
        for field, kind in fields.items():
            if isinstance(kind, str):
                inner = f".{_PACKAGE}.{kind}"
                twin.field.add(name=field, number=known[field].number, type=kinds.TYPE_MESSAGE, label=kinds.LABEL_OPTIONAL, type_name=inner)
            else:
                twin.field.add(name=field, number=known[field].number, type=kind, label=kinds.LABEL_REPEATED)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName(f"{_PACKAGE}.Graph")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(found)
    return message_factory.MessageFactory(pool).GetPrototype(found)  # protobuf before 4.22
