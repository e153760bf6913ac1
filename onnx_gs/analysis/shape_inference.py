"""Dtypes and shapes by ONNX's own inference, run on the structure of a model: the weights stay where they are, so no size is too large."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import onnx
import onnx.defs
import onnx.shape_inference

from onnx_gs.analysis import constness
from onnx_gs.errors import OnnxGsError
from onnx_gs.io import structure, types
from onnx_gs.io.tensor_data import EXTERNAL
from onnx_gs.ir import dtypes, walk
from onnx_gs.ir.bulk import collector_paused
from onnx_gs.ir.node import ONNX_DOMAINS
from onnx_gs.ir.shapes import is_static, is_static_dim
from onnx_gs.ir.tensor import Constant, Variable
from onnx_gs.ir.types import ValueType
from onnx_gs.ir.values import LazyValues

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.ir import Graph, Node, Tensor

LOGGER = logging.getLogger("onnx_gs")
#: Weights of at most this many bytes are handed over with their values, wherever they are stored: they may be shapes, axes, repeats.
INLINE = 1024
#: What inference calls dims that it invents; they mean nothing outside one run.
_INVENTED = "unk__"


def infer(graph: Graph) -> None:
    """Write inferred dtypes and shapes down on the variables of a graph and its bodies.

    What is declared is never weakened: a declared dim stays, unless it is unknown or symbolic and inference finds a number. Inputs of the model
    keep their declared types; its outputs too, where they have one. Local functions are seen through; their own bodies are left alone.

    Args:
        graph: a model's graph, sorted.

    Spec: ONNX shape inference with data propagation.

    Example:
        >>> from onnx_gs.ir import Graph, Node
        >>> x, y = Variable("x", "float32", ("n", 3)), Variable("y")
        >>> infer(Graph([Node("Transpose", attrs={"perm": [1, 0]}, inputs=[x], outputs=[y])], [x], [y]))
        >>> y
        Variable (y): (shape=[3, 'n'], dtype=float32)
    """
    if _is_complete(graph):
        return
    with collector_paused():
        inferred = _infer(graph)
        if inferred is not None:
            _merge(graph, *inferred)


def _is_complete(graph: Graph) -> bool:
    """Say whether every value already has a dtype and a static shape."""
    for g in walk.graphs(graph):
        for node in g.nodes:
            for t in node._outputs:
                if t._name and isinstance(t, Variable) and (t.type != "tensor_type" or dtypes.of(t) is None or not is_static(t.shape)):
                    return False
    return True


def _stand_in(node: Node) -> Constant | None:
    if node.domain not in ONNX_DOMAINS or not node._outputs:
        return None
    values = constness.values_of_node(node)
    return None if values is None else Constant(node._outputs[0]._name, values)


def _infer(graph: Graph) -> tuple[Any, structure.StructureWriter] | None:
    functions = {(f.domain or "", f.name) for f in graph.functions}

    def is_unknown(node: Node) -> bool:
        return (str(node.domain), node.op) not in functions and not onnx.defs.has(node.op, str(node.domain))

    writer = structure.StructureWriter(_stand_in, is_unknown)  # older versions of onnx infer nothing behind an operator that they do not know
    model = writer.model(graph)
    writer.graph(graph, model.graph)
    typed = [message for message in model.graph.output if message.HasField("type")]
    if len(typed) != len(model.graph.output):  # older versions of onnx infer nothing for outputs that are listed without a type
        del model.graph.output[:]
        model.graph.output.extend(typed)
    for name, tensor in writer.weights.items():
        _describe_weight(name, tensor, model.graph)
    if writer.bodies:
        _repeat_in_bodies(model.graph)
    try:
        writer.finish(model, graph.functions)
    except OnnxGsError as error:  # a function that cannot be written is not seen through
        LOGGER.debug("shape inference does not see through functions: %s", error)
        model.ClearField("functions")
    try:
        return onnx.shape_inference.infer_shapes(model, check_type=False, strict_mode=False, data_prop=True), writer
    except Exception as error:  # noqa: BLE001 - the C++ side raises what it likes; without inference the shapes stay as they are
        LOGGER.warning("shape inference fails: %s", str(error).splitlines()[0] if str(error) else error)
        return None


def _describe_weight(name: str, tensor: Constant, target: Any) -> None:
    known = dtypes.find(tensor.export_dtype)
    if known is not None and known.bits >= 8 and known.kind in {"int", "uint", "bool", "float"} and tensor.nbytes <= INLINE:
        held: Any = tensor._values
        if type(held) is LazyValues and held._region is None and tensor._export_dtype is None:  # the message that it came in says it
            message = held._source
            if type(message) is onnx.TensorProto and message.data_location != EXTERNAL and message.ByteSize() <= 2 * INLINE:
                target.initializer.add().CopyFrom(message)
                target.initializer[-1].name = name
                return
        values = constness.array(tensor)
        if values is not None:
            structure.inline(name, values, target.initializer.add())
            return
    value = target.value_info.add()
    value.name = name
    if known is not None:
        types.write(value.type, ValueType("tensor_type", known.number, tensor.shape))


def _repeat_in_bodies(graph: Any) -> None:
    """Put the small weights that a body reads into the body too: inference tells bodies the types of outer values, but not what they hold."""
    values = {t.name: t for t in graph.initializer}
    pending = [graph]
    while pending:
        current = pending.pop()
        for node in current.node:
            for attribute in node.attribute:
                pending.extend([attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs)
        if current is not graph:
            read = dict.fromkeys(name for node in current.node for name in node.input if name in values)
            current.initializer.extend([values[name] for name in read])


def _merge(graph: Graph, model: Any, writer: structure.StructureWriter) -> None:
    fixed = {id(t) for g in walk.graphs(graph) for t in g.inputs}
    returned = {id(t) for t in graph.outputs}
    tensors = writer.tensors
    for t in tensors.values():
        if id(t) in writer.stand_ins:
            _describe(t, writer.stand_ins[id(t)])
    seen: dict[bytes, tuple[Any, list[Any] | None] | None] = {}
    pending = [model.graph]
    while pending:
        current = pending.pop()
        for message in (*current.value_info, *current.output):
            found = tensors.get(message.name)
            if found is None or id(found) in fixed or found.__class__ is not Variable or id(found) in writer.stand_ins:
                continue
            stored = message.type
            key = stored.SerializeToString()
            known = seen[key] if key in seen else seen.setdefault(key, _tensor_type(stored))
            if known is None:
                _write_down_other(found, stored)
            else:
                _write_down(found, known[0], known[1], keep_shape=id(found) in returned)
        if not writer.bodies:
            return
        for node in current.node:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    pending.append(attribute.g)
                elif attribute.type == onnx.AttributeProto.GRAPHS:
                    pending.extend(attribute.graphs)


def _describe(t: Tensor, stand_in: Constant) -> None:
    """Write down the type of what a Constant node holds."""
    if not isinstance(t, Variable) or t.type != "tensor_type":
        return
    if t.dtype is None:
        t.dtype = stand_in.dtype
    if t.shape is None:
        t.shape = list(stand_in.shape)


def _tensor_type(stored: Any) -> tuple[Any, list[Any] | None] | None:
    """Give the dtype and dims that a type message says; None for what is no tensor."""
    if stored.WhichOneof("value") != "tensor_type":
        return None
    tensor = stored.tensor_type
    dtype = types.public_dtype(tensor.elem_type) if tensor.elem_type else None
    if not tensor.HasField("shape"):
        return dtype, None
    return dtype, [
        d.dim_value if d.HasField("dim_value") else d.dim_param if d.dim_param and not d.dim_param.startswith(_INVENTED) else None
        for d in tensor.shape.dim
    ]


def _write_down(t: Tensor, dtype: Any, dims: list[Any] | None, *, keep_shape: bool) -> None:
    if t._source is None and t._dtype is None and t._shape is None and t._type == "tensor_type":  # nothing is known: most values
        t._dtype = dtype
        t._shape = None if dims is None else list(dims)
        return
    if t.type != "tensor_type":
        return
    if t.dtype is None and dtype is not None:
        t.dtype = dtype
    if dims is None:
        return
    old = t.shape
    if old is None:
        t.shape = list(dims)
    elif not keep_shape:
        better = stronger(old, dims)
        if better is not None:
            t.shape = better


def _write_down_other(t: Tensor, stored: Any) -> None:
    if t.type == "tensor_type" and t.dtype is None and t.shape is None and stored.WhichOneof("value") is not None:
        found = types.decode(stored)
        if found is not None:
            t.value_type = found  # type: ignore[attr-defined]


def stronger(old: Sequence[Any], new: Sequence[Any]) -> list[Any] | None:
    """Give a declared shape with what inference knows better: numbers for symbols and unknown dims, symbols for unknown ones; None for no gain.

    Example:
        >>> stronger(["n", None, 3], [2, "m", 5]), stronger([1, 2], [1, None])
        ([2, 'm', 3], None)
    """
    if len(old) != len(new):
        return None
    merged = [_stronger(a, b) for a, b in zip(old, new)]
    return merged if any(a is not b for a, b in zip(merged, old)) else None


def _stronger(old: Any, new: Any) -> Any:
    if is_static_dim(old):
        return old
    if is_static_dim(new):
        return new
    if isinstance(old, str) and old:
        return old
    return new if isinstance(new, str) and new else old
