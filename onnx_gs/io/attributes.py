"""Attributes: ``AttributeProto`` to Python values and back."""

from __future__ import annotations

import math
import typing
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from onnx_gs.errors import GraphError, GraphTypeError, GraphValueError
from onnx_gs.io import tensor_data, types
from onnx_gs.ir import dtypes
from onnx_gs.ir.attribute import AttributeRef
from onnx_gs.ir.graph import Graph
from onnx_gs.ir.node import is_graph
from onnx_gs.ir.tensor import Constant, Tensor
from onnx_gs.ir.types import ValueType
from onnx_gs.ir.values import LazyValues, SparseValues

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from onnx_gs.ir.dtypes import DataType

A = onnx.AttributeProto

#: Attribute type -> the field of the message that holds the value.
FIELDS: dict[int, str] = {
    A.FLOAT: "f", A.INT: "i", A.STRING: "s", A.TENSOR: "t", A.GRAPH: "g", A.SPARSE_TENSOR: "sparse_tensor", A.TYPE_PROTO: "tp",
    A.FLOATS: "floats", A.INTS: "ints", A.STRINGS: "strings", A.TENSORS: "tensors", A.GRAPHS: "graphs", A.SPARSE_TENSORS: "sparse_tensors",
    A.TYPE_PROTOS: "type_protos",
}  # fmt: skip
LISTS = frozenset({A.FLOATS, A.INTS, A.STRINGS, A.TENSORS, A.GRAPHS, A.SPARSE_TENSORS, A.TYPE_PROTOS})
WEIGHTS = frozenset({A.TENSOR, A.TENSORS, A.SPARSE_TENSOR, A.SPARSE_TENSORS})
BODIES = frozenset({A.GRAPH, A.GRAPHS})
_INT, _INTS = int(A.INT), int(A.INTS)  # what most attributes are; the enum looks its members up by name each time

# The typing spellings are the public ones: scripts compare ``ref.type == List[int]``.
_PYTHON_TYPES: dict[int, Any] = {
    A.FLOAT: float, A.INT: int, A.STRING: str, A.TENSOR: Tensor, A.GRAPH: Graph, A.SPARSE_TENSOR: SparseValues, A.TYPE_PROTO: ValueType,
    A.FLOATS: typing.List[float], A.INTS: typing.List[int], A.STRINGS: typing.List[str], A.TENSORS: typing.List[Tensor],  # noqa: UP006
    A.GRAPHS: typing.List[Graph], A.SPARSE_TENSORS: typing.List[SparseValues], A.TYPE_PROTOS: typing.List[ValueType],  # noqa: UP006
}  # fmt: skip


def kind_of(attribute: Any) -> int:
    """Give the type of an attribute; old models leave it unset, and the field that is set tells."""
    if attribute.type:
        return int(attribute.type)
    for kind, field in FIELDS.items():
        if (len(getattr(attribute, field)) if kind in LISTS else attribute.HasField(field)) > 0:
            return int(kind)
    return 0


def python_type(kind: int) -> Any:
    """Give the Python-side type of an attribute type's values: ``float``, ``List[int]``, ``Tensor`` and so on; None for the undefined type."""
    return _PYTHON_TYPES.get(kind, kind) if kind else None


def onnx_type(wanted: Any) -> int:
    """Give the attribute type for a Python-side type of values: ``UNDEFINED`` for None; an attribute type stays as it is.

    Raises:
        GraphTypeError: no attribute holds such values.

    Example:
        >>> onnx_type(list[float]) == onnx.AttributeProto.FLOATS
        True
    """
    if wanted is None:
        return int(A.UNDEFINED)
    if isinstance(wanted, int) and wanted in FIELDS:
        return int(wanted)
    item, plural = wanted, False
    if typing.get_origin(wanted) in {list, tuple}:
        item, plural = typing.get_args(wanted)[0], True
    for kind, known in _PYTHON_TYPES.items():
        if (kind in LISTS) != plural or not isinstance(item, type):
            continue
        known = typing.get_args(known)[0] if plural else known
        if item is known or issubclass(item, known):
            return int(kind)
        if (known is int and issubclass(item, np.integer)) or (known is float and issubclass(item, np.floating)):
            return int(kind)
        if known is str and issubclass(item, bytes):
            return int(kind)
    raise GraphTypeError(f"an attribute reference cannot have type {wanted!r}", fix="use float, int, str, Tensor, Graph or a List of one of them")


def text(stored: bytes) -> str | bytes:
    """Give text where the bytes are UTF-8, else the bytes."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


class NotTextError(GraphError):
    """A name in a model is no UTF-8 text; protobuf gives its bytes then."""

    def __init__(self, name: object) -> None:
        """Show the bytes."""
        super().__init__(f"a name in the model is no UTF-8 text: {name!r:.80}", fix="the model is damaged; export it again")


def check_names(names: Iterable[object]) -> None:
    """Raise for the first name that is no text.

    Raises:
        NotTextError: there is one.
    """
    names = list(names)
    if bytes in map(type, names):
        raise NotTextError(next(name for name in names if isinstance(name, bytes)))


def decode_all(protos: Iterable[Any], body: Callable[[Any], Graph], weight: Callable[[Any], LazyValues]) -> OrderedDict[str, Any]:
    """Give the values of attributes by name; see ``decode``.

    Raises:
        NotTextError: a name is no text.
    """
    found = OrderedDict((a.name, decode(a, body, weight)) for a in protos)
    check_names(found)
    return found


def decode(attribute: Any, body: Callable[[Any], Graph], weight: Callable[[Any], LazyValues]) -> Any:
    """Give the value of an attribute.

    Args:
        attribute: the message.
        body: makes a graph of a ``GraphProto``.
        weight: makes lazy values of a ``TensorProto`` or ``SparseTensorProto``.

    Returns:
        A Python value, tensor, graph or reference; the message itself where its kind is unknown to this version.
    """
    kind = attribute.type or kind_of(attribute)
    if attribute.ref_attr_name:
        if not isinstance(attribute.ref_attr_name, str):
            raise NotTextError(attribute.ref_attr_name)
        return AttributeRef(attribute.ref_attr_name, python_type(kind))
    if kind == _INT:
        return attribute.i
    if kind == _INTS:
        return attribute.ints[:]
    field = FIELDS.get(kind)
    if field is None:
        return attribute
    value = getattr(attribute, field)
    if kind == A.FLOAT:
        return value
    if kind == A.FLOATS:
        return list(value)
    one = _DECODERS[kind]
    return [one(v, body, weight) for v in value] if kind in LISTS else one(value, body, weight)


def _constant(proto: Any, weight: Callable[[Any], LazyValues]) -> Constant:
    lazy = weight(proto)
    name = proto.values.name if isinstance(lazy, SparseValues) else proto.name
    if not isinstance(name, str):
        raise NotTextError(name)
    new = Constant(name, lazy)
    new._location = tensor_data.data_location(proto)
    return new


_Decoder = typing.Callable[[Any, typing.Any, typing.Any], Any]
_DECODERS: dict[int, _Decoder] = {
    A.STRING: lambda v, _body, _weight: text(v),
    A.STRINGS: lambda v, _body, _weight: text(v),
    A.TENSOR: lambda v, _body, weight: _constant(v, weight),
    A.TENSORS: lambda v, _body, weight: _constant(v, weight),
    A.SPARSE_TENSOR: lambda v, _body, weight: _constant(v, weight),
    A.SPARSE_TENSORS: lambda v, _body, weight: _constant(v, weight),
    A.GRAPH: lambda v, body, _weight: body(v),
    A.GRAPHS: lambda v, body, _weight: body(v),
    A.TYPE_PROTO: lambda v, _body, _weight: types.decode(v) or v,
    A.TYPE_PROTOS: lambda v, _body, _weight: types.decode(v) or v,
}


class Encoder:
    """Writes attribute values into messages.

    Args:
        graph: writes a graph into a ``GraphProto``.
        weight: writes a constant into a ``TensorProto`` or, for sparse ones, a ``SparseTensorProto``.
    """

    def __init__(self, graph: Callable[[Graph, Any], None], weight: Callable[[Constant, Any], None]) -> None:
        """Keep the two writers."""
        self.graph = graph
        self.weight = weight

    def encode(self, target: Any, name: str, value: Any, where: str, empty: Callable[[], int] | None = None) -> None:
        """Make a message say a value.

        Args:
            target: an ``AttributeProto``, empty, or the message that the value was once read from: then what is still right stays.
            name: the attribute's name.
            value: the Python value.
            where: the node, for errors.
            empty: gives the type of an empty list.

        Raises:
            GraphTypeError: no attribute can hold the value.
        """
        if isinstance(value, onnx.AttributeProto):
            if value is not target:
                target.CopyFrom(value)
            if target.name != name:
                target.name = name
            return
        if target.name != name:
            target.name = name
        if isinstance(value, AttributeRef):
            self._reference(target, value)
            return
        kind, items = classify(value, name, where)
        if kind == 0:
            old = kind_of(target)
            kind = old if old in LISTS else (empty() if empty is not None else int(A.INTS))
        if target.ref_attr_name:
            target.ClearField("ref_attr_name")
        old = kind_of(target)
        if old != kind and old in FIELDS:
            target.ClearField(FIELDS[old])
        if target.type != kind and not (old == kind and not target.type):
            target.type = kind
        try:
            self._write(target, FIELDS[kind], kind, items)
        except (ValueError, TypeError) as error:
            if isinstance(error, GraphTypeError):
                raise
            raise GraphValueError(f"attribute '{name}' cannot hold {value!r:.60}: {error}", where=where) from error

    def _reference(self, target: Any, value: AttributeRef) -> None:
        kind = onnx_type(value.type)
        if target.ref_attr_name == value.name and kind_of(target) == kind:
            return
        if kind_of(target) != kind:
            target.ClearField(FIELDS.get(kind_of(target), "f"))
            if kind == A.TENSOR:  # readers that look at the value in spite of the name find one
                self.weight(Constant("", np.zeros(1, np.float32)), target.t)
        target.type = kind
        target.ref_attr_name = value.name

    def _write(self, target: Any, field: str, kind: int, items: list[Any]) -> None:
        if kind in _SCALARS:
            value = items[0]
            if not target.HasField(field) or not _same_scalar(getattr(target, field), value, kind):
                setattr(target, field, value)
            return
        if kind in _SCALAR_LISTS:
            stored = getattr(target, field)
            if len(stored) != len(items) or not all(_same_scalar(a, b, kind) for a, b in zip(stored, items)):
                target.ClearField(field)
                getattr(target, field).extend(items)
            return
        if kind in LISTS:
            stored = getattr(target, field)
            while len(stored) > len(items):
                stored.pop()
            for at, item in enumerate(items):
                self._write_one(stored[at] if at < len(stored) else stored.add(), kind, item)
            return
        message = getattr(target, field)
        message.SetInParent()
        self._write_one(message, kind, items[0])

    def _write_one(self, message: Any, kind: int, item: Any) -> None:
        if kind in WEIGHTS:
            if isinstance(item, Tensor):
                self.weight(item, message)  # type: ignore[arg-type]
            else:
                message.CopyFrom(item)
        elif kind in BODIES:
            if is_graph(item):
                self.graph(item, message)
            else:
                message.CopyFrom(item)
        elif isinstance(item, ValueType):
            if not types.same(types.decode(message), item):
                types.write(message, item)
        else:
            message.CopyFrom(item)


_SCALARS = frozenset({A.FLOAT, A.INT, A.STRING})
_SCALAR_LISTS = frozenset({A.FLOATS, A.INTS, A.STRINGS})


def _same_scalar(stored: Any, wanted: Any, kind: int) -> bool:
    if kind in {A.FLOAT, A.FLOATS}:
        with np.errstate(over="ignore"):
            wanted = float(np.float32(wanted))
        return (stored == wanted and math.copysign(1, stored) == math.copysign(1, wanted)) or (stored != stored and wanted != wanted)  # noqa: PLR0124 - NaN
    return bool(stored == wanted)


def _wrong(value: Any, name: str, where: str) -> GraphTypeError:
    return GraphTypeError(
        f"attribute '{name}' has {type(value).__name__} {value!r:.60}, which no ONNX attribute can hold",
        where=where,
        fix="use numbers, text, bytes, lists of these, tensors, graphs, types or references",
    )


def classify(value: Any, name: str = "", where: str = "") -> tuple[int, list[Any]]:
    """Give the attribute type that holds a value, and the items to store; type 0 for an empty list.

    Raises:
        GraphTypeError: none does.
    """
    if isinstance(value, np.ndarray):
        if value.ndim != 1 or value.dtype.kind in "cmMV":
            raise _wrong(value, name, where)
        value = value.tolist() if value.dtype.kind in "biufOSU" else [float(v) for v in value]
    if isinstance(value, (list, tuple)) or (hasattr(value, "__iter__") and isinstance(value, (range, set, frozenset))):
        values = list(value)
        if not values:
            return 0, []
        parts = [_classify_one(v, name, where) for v in values]
        kinds = {kind for kind, _ in parts}
        if kinds == {A.INT, A.FLOAT}:
            return int(A.FLOATS), [float(v) for _, v in parts]
        if len(kinds) != 1:
            raise _wrong(value, name, where)
        return _PLURAL[kinds.pop()], [v for _, v in parts]
    kind, item = _classify_one(value, name, where)
    return kind, [item]


_PLURAL: dict[int, int] = {
    A.FLOAT: A.FLOATS, A.INT: A.INTS, A.STRING: A.STRINGS, A.TENSOR: A.TENSORS, A.GRAPH: A.GRAPHS, A.SPARSE_TENSOR: A.SPARSE_TENSORS,
    A.TYPE_PROTO: A.TYPE_PROTOS,
}  # fmt: skip


def _classify_one(value: Any, name: str, where: str) -> tuple[int, Any]:
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return int(A.INT), int(value)
    if isinstance(value, (float, np.floating)):
        return int(A.FLOAT), float(value)
    if isinstance(value, str):
        return int(A.STRING), value.encode()
    if isinstance(value, (bytes, bytearray)):
        return int(A.STRING), bytes(value)
    if isinstance(value, Constant):
        sparse = isinstance(value.lazy, SparseValues) and not _converted(value)
        return int(A.SPARSE_TENSOR if sparse else A.TENSOR), value
    if isinstance(value, LazyValues):
        return int(A.SPARSE_TENSOR if isinstance(value, SparseValues) else A.TENSOR), Constant("", value)
    if is_graph(value):
        return int(A.GRAPH), value
    if isinstance(value, ValueType):
        return int(A.TYPE_PROTO), value
    for message, kind in _MESSAGES:
        if isinstance(value, message):
            return int(kind), value
    number = _element_type(value)
    if number is not None:
        return int(A.INT), number
    raise _wrong(value, name, where)


def _converted(constant: Constant) -> bool:
    """Say whether a constant is exported as another element type than it has."""
    wanted = constant._export_dtype
    return wanted is not None and dtypes.find(wanted) is not dtypes.find(constant.dtype)


_MESSAGES = ((onnx.TensorProto, A.TENSOR), (onnx.SparseTensorProto, A.SPARSE_TENSOR), (onnx.GraphProto, A.GRAPH), (onnx.TypeProto, A.TYPE_PROTO))


def _element_type(value: Any) -> int | None:
    """Give the enum number where a value is a dtype or a scalar class, such as ``np.float32`` as the target of a cast."""
    if not isinstance(value, (type, np.dtype, dtypes.DataType)):
        return None
    known: DataType | None = dtypes.find(str if value is str else value)
    return None if known is None else known.number


def empty_list_type(op: str, domain: str | None, opset: int | None, name: str) -> int:
    """Give the type that an operator's schema states for an attribute, for an empty list; INTS where nothing is known."""
    standard = "" if domain in {None, "ai.onnx"} else str(domain)
    try:
        schema = onnx.defs.get_schema(op, opset, standard) if opset is not None and standard == "" else onnx.defs.get_schema(op, standard)
    except onnx.defs.SchemaError:
        return int(A.INTS)
    found = schema.attributes.get(name)
    kind = int(found.type.value) if found is not None else 0
    return kind if kind in LISTS else int(A.INTS)


def same_items(stored: Any, known: Mapping[str, str]) -> bool:
    """Say whether metadata entries say what a dict says."""
    return len(stored) == len(known) and all(known.get(entry.key) == entry.value for entry in stored)
