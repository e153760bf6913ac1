"""Which tensors are constant, and what they hold, without reading more than is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.errors import OnnxGsError
from onnx_gs.ir import dtypes, source
from onnx_gs.ir.tensor import Constant
from onnx_gs.ir.values import LazyValues

if TYPE_CHECKING:
    from onnx_gs.ir import Node, Tensor

Array = np.ndarray[Any, Any]

#: The attribute forms of ``ai.onnx::Constant``, and the element type that each gives; None where the value says it.
FORMS: dict[str, dtypes.DataType | None] = {
    "value": None, "sparse_value": None, "value_float": dtypes.FLOAT, "value_floats": dtypes.FLOAT, "value_int": dtypes.INT64,
    "value_ints": dtypes.INT64, "value_string": dtypes.STRING, "value_strings": dtypes.STRING,
}  # fmt: skip


def is_constant(tensor: Tensor) -> bool:
    """Say whether a tensor is a weight, or what a ``Constant`` node gives."""
    return isinstance(tensor, Constant) or constant_node(tensor) is not None


def constant_node(tensor: Tensor) -> Node | None:
    """Give the ``ai.onnx::Constant`` node that produces a tensor, or None."""
    producers = tensor._inputs
    if len(producers) != 1:
        return None
    node = producers[0]
    return node if node.op == "Constant" and node.is_onnx else None


def values_of_node(node: Node) -> LazyValues | Array | None:
    """Give what a ``Constant`` node holds, unread where it is lazy; None where it has not exactly one of the known forms.

    Spec: ``ai.onnx::Constant-13``.
    """
    found = source.codec().constant(node._source) if node._attrs is None else None  # which spares most of an import decoding
    if found is None and len(node.attrs) == 1:
        found = next(iter(node.attrs.items()))
    if found is None or found[0] not in FORMS:
        return None
    form, value = found
    if isinstance(value, Constant):
        if value._export_dtype is not None and dtypes.find(value._export_dtype) is not dtypes.find(value.dtype):
            return None
        stored: LazyValues | Array = value._values
        return stored
    if isinstance(value, (LazyValues, np.ndarray)) and form in {"value", "sparse_value"}:
        return value
    known = FORMS[form]
    if known is None:
        return None
    try:
        return _literal(value, known, is_list=form.endswith("s"))
    except (TypeError, ValueError, OverflowError):
        return None


def _literal(value: Any, known: dtypes.DataType, *, is_list: bool) -> Array | None:
    if is_list != isinstance(value, (list, tuple, np.ndarray)):
        return None
    if known is dtypes.STRING:
        items = list(value) if is_list else [value]
        if not all(isinstance(v, (str, bytes)) for v in items):
            return None
        text = np.empty(len(items), object)
        text[:] = items
        return text if is_list else text.reshape(())
    array = np.asarray(value, known.numpy)
    return array if array.ndim == int(is_list) else None


def held(tensor: Tensor) -> LazyValues | Array | None:
    """Give the values of a constant tensor, unread where they are lazy; None for a tensor that is computed."""
    if isinstance(tensor, Constant):
        stored: LazyValues | Array = tensor._values
        return stored
    node = constant_node(tensor)
    return None if node is None else values_of_node(node)


def array(tensor: Tensor, max_bytes: int | None = None) -> Array | None:
    """Give the values of a weight, or of what a ``Constant`` node gives.

    Args:
        tensor: any tensor.
        max_bytes: larger ones are not read, and None is given.

    Returns:
        The array, which may be read-only; None for a tensor that is computed, too large, or whose file cannot be read.

    Example:
        >>> array(Constant("c", np.arange(3))).tolist()
        [0, 1, 2]
    """
    found = held(tensor)
    if found is None or (max_bytes is not None and size(found) > max_bytes):
        return None
    try:
        return exported(tensor) if isinstance(tensor, Constant) else found if isinstance(found, np.ndarray) else found.load()
    except OnnxGsError:
        return None


def exported(tensor: Constant) -> Array:
    """Give the values of a weight as the model has them: in its ``export_dtype``.

    Raises:
        OnnxGsError: the file that holds them cannot be read, or they cannot be converted.
    """
    values = tensor.values
    wanted = tensor._export_dtype
    if wanted is None or dtypes.find(wanted) is dtypes.find(values.dtype):
        return values
    from onnx_gs.io import tensor_data

    return tensor_data.cast(values, dtypes.require(wanted), tensor._name)


def size(values: LazyValues | Array) -> int:
    """Give the bytes of values; strings count by their text."""
    if isinstance(values, np.ndarray) and values.dtype == object:
        return sum(len(v) for v in values.flat if isinstance(v, (str, bytes)))
    return int(values.nbytes)


def scalar(tensor: Tensor) -> Any | None:
    """Give the one element of a constant tensor of one element, of any rank, as a Python value; None otherwise.

    Example:
        >>> scalar(Constant("c", np.array([7]))), scalar(Constant("c", np.array([1, 2])))
        (7, None)
    """
    found = held(tensor)
    if found is None or any(d != 1 for d in found.shape):
        return None
    values = array(tensor)
    if values is None or values.size != 1:
        return None
    return values.item() if values.dtype.kind in "biufcO" else float(values.reshape(())) if values.dtype.kind == "V" else values.reshape(()).item()


def vector(tensor: Tensor, max_bytes: int = 1 << 16) -> list[Any] | None:
    """Give the elements of a constant tensor of rank 0 or 1 as Python values; None otherwise.

    Example:
        >>> vector(Constant("c", np.array([7, 8]))), vector(Constant("c", np.array(9)))
        ([7, 8], [9])
    """
    values = array(tensor, max_bytes)
    return None if values is None or values.ndim > 1 else values.reshape(-1).tolist()
