"""Types of values: ``TypeProto`` and back, nested as deep as ONNX nests them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx

from onnx_gs.errors import GraphError, GraphTypeError, GraphValueError
from onnx_gs.ir import dtypes
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.ir.types import ValueType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.ir.tensor import Tensor

#: The largest size that a message can hold.
MOST_DIM = 2**63 - 1


def public_dtype(number: int) -> Any:
    """Give what scripts see for an element type: a dtype, the enum number for some and for unknown ones, None for 0."""
    if not number:
        return None
    known = dtypes.BY_NUMBER.get(number)
    return number if known is None else known.public


def number_of(dtype: Any, where: str = "") -> int:
    """Give the enum number of an element type, 0 for None; integers pass unchanged.

    Raises:
        GraphTypeError: ``dtype`` is no element type.
    """
    if dtype is None:
        return 0
    known = dtypes.find(dtype)
    if known is not None:
        return known.number
    if isinstance(dtype, int) and not isinstance(dtype, bool):
        return dtype
    try:
        return dtypes.require(dtype).number
    except GraphError as error:
        error.where = error.where or where or None
        raise


def decode_shape(shape: Any) -> list[int | str | None]:
    """Give the dims of a ``TensorShapeProto``: sizes, names (``""`` too), or None where neither is set."""
    dims: list[int | str | None] = []
    for dim in shape.dim:
        kind = dim.WhichOneof("value")
        dims.append(None if kind is None else getattr(dim, kind))
    if bytes in map(type, dims):  # what protobuf gives where text is no UTF-8
        raise GraphError(f"the name of a dim is no UTF-8 text, in shape {dims}", fix="the model is damaged; export it again")
    return dims


def decode(proto: Any) -> ValueType | None:
    """Give the type that a ``TypeProto`` says; None where it says none."""
    kind = proto.WhichOneof("value")
    if kind is None:
        return None
    message = getattr(proto, kind)
    if kind in {"tensor_type", "sparse_tensor_type"}:
        shape = decode_shape(message.shape) if message.HasField("shape") else None
        return ValueType(kind, public_dtype(message.elem_type), shape)
    if kind == "map_type":
        return ValueType(kind, public_dtype(message.key_type), element=decode(message.value_type) if message.HasField("value_type") else None)
    if kind == "opaque_type":
        return ValueType(kind, name=(message.domain, message.name))
    return ValueType(kind, element=decode(message.elem_type) if message.HasField("elem_type") else None)


def decode_value(proto: Any) -> ValueType | None:
    """Give the type of a ``ValueInfoProto``; None where it has none."""
    return decode(proto.type) if proto.HasField("type") else None


def _same_dims(a: Sequence[Any] | None, b: Sequence[Any] | None) -> bool:
    if a is None or b is None:
        return a is b
    return len(a) == len(b) and all(map(_same_dim, a, b))


def _same_dim(a: Any, b: Any) -> bool:
    if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return type(a) is type(b) and a == b
    return bool(a == b)


def same(a: ValueType | None, b: ValueType | None) -> bool:
    """Say whether two types are spelled alike: same kinds, element types and dims, symbols included."""
    if a is None or b is None:
        return a is b
    return (
        a.kind == b.kind
        and number_of(a.dtype) == number_of(b.dtype)
        and _same_dims(a.shape, b.shape)
        and a.name == b.name
        and same(a.element, b.element)
    )


def _write_dim(message: Any, dim: Any) -> None:
    if isinstance(dim, str):
        message.dim_param = dim
    elif is_static_dim(dim):
        if dim > MOST_DIM:
            raise GraphValueError(f"dim {dim} is too large for a model", fix=f"give at most {MOST_DIM}")
        message.dim_value = int(dim)
    elif dim is None or isinstance(dim, (int, np.integer)):  # -1 as scripts write an unknown dim
        message.ClearField("dim_value")
        message.ClearField("dim_param")
    else:
        raise GraphTypeError(f"dim {dim!r} is neither a size, a name, nor None", fix="give an int (a division with // instead of /), text or None")


def _write_shape(message: Any, shape: Sequence[Any] | None) -> None:
    if shape is None:
        message.ClearField("shape")
        return
    present = decode_shape(message.shape) if message.HasField("shape") else None
    message.shape.SetInParent()
    if present is None or len(present) != len(shape):
        message.shape.ClearField("dim")
        for dim in shape:
            _write_dim(message.shape.dim.add(), dim)
        return
    for old, new, target in zip(present, shape, message.shape.dim):  # in place, so that denotations stay
        if not _same_dim(old, new):
            _write_dim(target, new)


def write(proto: Any, wanted: ValueType) -> None:
    """Make a ``TypeProto`` say a type, changing only what differs, so that denotations stay.

    Raises:
        GraphError: the type is of no known kind.
    """
    if wanted.kind not in proto.DESCRIPTOR.fields_by_name or wanted.kind == "denotation":
        raise GraphError(f"'{wanted.kind}' is no kind of value", fix="use tensor_type, sequence_type, optional_type, map_type or sparse_tensor_type")
    message = getattr(proto, wanted.kind)
    message.SetInParent()
    if wanted.kind in {"tensor_type", "sparse_tensor_type"}:
        number = number_of(wanted.dtype)
        if message.elem_type != number or not message.HasField("elem_type"):
            message.elem_type = number
        _write_shape(message, wanted.shape)
    elif wanted.kind == "map_type":
        message.key_type = number_of(wanted.dtype)
        if wanted.element is not None:
            write(message.value_type, wanted.element)
    elif wanted.kind == "opaque_type":
        domain, name = wanted.name or ("", "")
        for field, text in (("domain", domain), ("name", name)):
            if getattr(message, field) != text:
                setattr(message, field, text)
    elif wanted.element is not None:
        write(message.elem_type, wanted.element)


def encode(wanted: ValueType) -> onnx.TypeProto:
    """Give a ``TypeProto`` for a type."""
    proto = onnx.TypeProto()
    write(proto, wanted)
    return proto


def type_of(tensor: Tensor) -> ValueType | None:
    """Give the type of a tensor, None for a variable of which nothing is known."""
    nested = getattr(tensor, "value_type", None)
    if nested is None:
        return ValueType("tensor_type", getattr(tensor, "export_dtype", None) or tensor.dtype, tensor.shape)
    if nested.kind == "tensor_type" and nested.dtype is None and nested.shape is None:
        return None
    return nested  # type: ignore[no-any-return]
