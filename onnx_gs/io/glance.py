"""What a look at a model's message tells, so that no graph has to be built for a question about the whole of it."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from onnx_gs.io import importer, tensor_data
from onnx_gs.ir.node import ONNX_DOMAINS

if TYPE_CHECKING:
    import onnx


class Glance(NamedTuple):
    """A model of ONNX's own operators and of tensors, without bodies or functions.

    Attributes:
        operators: what its nodes are.
        kinds: numbers of the element types, and ranks, of its inputs and weights.
        opset: the version of ONNX's operators.
    """

    operators: frozenset[str]
    kinds: frozenset[tuple[int, int]]
    opset: int


def glance(model: onnx.ModelProto) -> Glance | None:
    """Look at a model's message.

    Returns:
        What it tells; None where only the graph can tell, or can say what is wrong: bodies, functions, operators of other domains, attributes that
        hold weights, weights in other files, an interface of anything but tensors of known rank, or none, a name that is made twice.
    """
    opset = importer.opset_of(model)
    graph = model.graph
    if opset is None or len(getattr(model, "functions", ())) or len(graph.sparse_initializer):
        return None
    nodes = graph.node[:]
    operators = {node.op_type for node in nodes}
    if not all(map(importer._is_plain, operators)) or not ONNX_DOMAINS.issuperset({node.domain for node in nodes}):
        return None
    entering = {_kind(value) for value in graph.input}
    leaving = {_kind(value) for value in graph.output}
    if None in entering or None in leaving or not leaving:
        return None
    weights = {(weight.data_type, len(weight.dims), weight.data_location) for weight in graph.initializer}
    if any(location == tensor_data.EXTERNAL for _, _, location in weights):
        return None
    made = list(filter(None, chain.from_iterable([node.output[:] for node in nodes])))
    if len(set(made)) < len(made):
        return None
    return Glance(frozenset(operators), frozenset(entering | {(number, rank) for number, rank, _ in weights}), opset)


def _kind(value: Any) -> Any:
    """Give element type and rank of an input or output; None where it is no tensor, or does not say them."""
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        return None
    return value.type.tensor_type.elem_type, len(value.type.tensor_type.shape.dim)
