"""Exact kernels in this process: shape arithmetic and moves of data, with results that ONNX Runtime gives bit for bit.

A kernel takes a node and its input arrays and gives the outputs, or ``None`` where it is not sure to give exactly what ONNX Runtime gives: other
element types, older definitions, special values. Then a session has to do it. Kernels never change their inputs, and may give views of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from onnx_gs.analysis.shape_functions import as_slice, taken
from onnx_gs.errors import EvaluationError
from onnx_gs.ir import dtypes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.ir import Node

Array = np.ndarray[Any, Any]
Result = list[Array] | None
Kernel = Callable[["Node", int, "list[Array | None]"], "Result"]
Types = frozenset["np.dtype[Any]"]

_INTS: Types = frozenset(np.dtype(t) for t in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"))
_FLOATS: Types = frozenset({np.dtype("f4"), np.dtype("f8")})
_BOOL: np.dtype[Any] = np.dtype(bool)
_KERNELS: dict[str, Kernel] = {}


def handles(op: str) -> bool:
    """Say whether there is a kernel for an operator of ONNX's own domain; it may still decline."""
    return op in _KERNELS


def evaluate(node: Node, opset: int, inputs: Sequence[Array | None]) -> Result:
    """Compute a node of ONNX's own domain.

    Args:
        node: the node.
        opset: the version of ONNX's operators that its graph imports.
        inputs: one array an input, None for an omitted one.

    Returns:
        The outputs in order, as many as the operator gives; None where a session has to compute them.

    Raises:
        EvaluationError: the node has no result, whoever computes it: an integer is divided by zero.

    Example:
        >>> from onnx_gs.ir import Node
        >>> evaluate(Node("Div"), 14, [np.array([-7, 7]), np.array(2)])[0].tolist()
        [-3, 3]
    """
    kernel = _KERNELS.get(node.op)
    if kernel is None:
        return None
    try:
        with np.errstate(all="ignore"):
            found = kernel(node, opset, list(inputs))
    except (ValueError, TypeError, IndexError, OverflowError, MemoryError, AssertionError):  # numpy refuses: let the session say what is wrong
        return None
    return None if found is None else [np.asarray(x) for x in found]


def _kernel(*ops: str) -> Callable[[Kernel], Kernel]:
    def note(function: Kernel) -> Kernel:
        for op in ops:
            _KERNELS[op] = function
        return function

    return note


def _ints(x: Array | None) -> list[int]:
    if x is None or x.dtype not in _INTS or x.ndim > 1:
        raise ValueError("not a list of integers")
    return [int(v) for v in x.reshape(-1)]


def _attr_ints(node: Node, name: str) -> list[int] | None:
    found = node.attrs.get(name)
    if found is None:
        return None
    if not isinstance(found, (list, tuple)) or not all(isinstance(v, (int, np.integer)) for v in found):
        raise ValueError("not a list of integers")
    return [int(v) for v in found]


def _attr_int(node: Node, name: str, default: int) -> int:
    found = node.attrs.get(name, default)
    if not isinstance(found, (int, np.integer)):
        raise TypeError("not an integer")
    return int(found)


def _axis(value: int, rank: int) -> int:
    if not -rank <= value < max(rank, 1):
        raise ValueError("axis out of range")
    return value + rank if value < 0 else value


def _axes(values: Sequence[int], rank: int) -> list[int]:
    found = [_axis(v, rank) for v in values]
    if len(set(found)) != len(found):
        raise ValueError("an axis twice")
    return found


def _like(x: Any, dtype: np.dtype[Any]) -> Array:
    return np.asarray(x, dtype)


# -- shapes and moves -----------------------------------------------------------------------------


@_kernel("Shape")
def _shape(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    dims = np.array(inputs[0].shape, np.int64)  # type: ignore[union-attr]
    rank = len(dims)
    start, end = _attr_int(node, "start", 0), _attr_int(node, "end", rank)
    start = min(max(start + rank if start < 0 else start, 0), rank)
    end = min(max(end + rank if end < 0 else end, 0), rank)
    return [dims[start : max(start, end)]]


@_kernel("Size")
def _size(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    return [np.array(math.prod(inputs[0].shape), np.int64)]  # type: ignore[union-attr]


@_kernel("Identity")
def _identity(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    return None if inputs[0] is None else [inputs[0]]


@_kernel("Gather")
def _gather(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    x, at = inputs
    assert x is not None
    assert at is not None
    axis = _axis(_attr_int(node, "axis", 0), x.ndim)
    if at.dtype not in _INTS or (opset < 11 and at.size and at.min() < 0):
        return None
    return [np.take(x, at.astype(np.int64, copy=False), axis=axis)]


@_kernel("GatherElements")
def _gather_elements(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    x, at = inputs
    assert x is not None
    assert at is not None
    axis = _axis(_attr_int(node, "axis", 0), x.ndim)
    others = [k for k in range(x.ndim) if k != axis]
    if at.ndim != x.ndim or any(at.shape[k] > x.shape[k] for k in others):
        return None
    if at.size and (at.min() < -x.shape[axis] or at.max() >= x.shape[axis]):
        return None
    cut = tuple(slice(None) if k == axis else slice(at.shape[k]) for k in range(x.ndim))
    return [np.take_along_axis(x[cut], at.astype(np.int64), axis)]


@_kernel("GatherND")
def _gather_nd(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    x, at = inputs
    assert x is not None
    assert at is not None
    if at.dtype != np.int64 or _attr_int(node, "batch_dims", 0) != 0 or not 1 <= at.shape[-1] <= x.ndim:
        return None
    sizes = np.array(x.shape[: at.shape[-1]])
    if at.size and ((at < -sizes) | (at >= sizes)).any():
        return None
    return [x[tuple(np.moveaxis(at, -1, 0))]]


@_kernel("Slice")
def _slice(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    x = inputs[0]
    assert x is not None
    given = [*inputs[1:], *[None] * 4][:4]
    if opset < 10 or len(inputs) == 1:
        starts, ends = _attr_ints(node, "starts"), _attr_ints(node, "ends")
        axes, steps = _attr_ints(node, "axes"), None
    else:
        starts, ends = _ints(given[0]), _ints(given[1])
        axes = None if given[2] is None else _ints(given[2])
        steps = None if given[3] is None else _ints(given[3])
    if starts is None or ends is None or len(starts) != len(ends):
        return None
    axes = _axes(axes if axes is not None else range(len(starts)), x.ndim)
    steps = steps if steps is not None else [1] * len(starts)
    if len(axes) != len(starts) or len(steps) != len(starts) or 0 in steps:
        return None
    cut = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps):
        indices = taken(start, end, step, x.shape[axis])
        if indices is None:
            return None
        cut[axis] = as_slice(indices)
    return [x[tuple(cut)]]


@_kernel("Concat")
def _concat(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    parts = [x for x in inputs if x is not None]
    if len(parts) != len(inputs) or parts[0].ndim == 0 or len({x.dtype for x in parts}) != 1 or len({x.ndim for x in parts}) != 1:
        return None
    axis = _axis(_attr_int(node, "axis", 1 if opset < 4 else 0), parts[0].ndim)
    return [np.concatenate(parts, axis)]


@_kernel("Squeeze")
def _squeeze(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    x = inputs[0]
    assert x is not None
    axes = _given_axes(node, opset, inputs, 13)
    if axes is not None and not axes:
        return None  # runtimes disagree: all axes, or none
    axes = [k for k, d in enumerate(x.shape) if d == 1] if axes is None else _axes(axes, x.ndim)
    return [np.squeeze(x, tuple(axes))]


@_kernel("Unsqueeze")
def _unsqueeze(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    x = inputs[0]
    axes = _given_axes(node, opset, inputs, 13)
    if x is None or axes is None:
        return None
    return [np.expand_dims(x, tuple(_axes(axes, x.ndim + len(axes))))]


def _given_axes(node: Node, opset: int, inputs: list[Array | None], as_input_since: int) -> list[int] | None:
    if opset >= as_input_since:
        return _ints(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else None
    return _attr_ints(node, "axes")


@_kernel("Reshape")
def _reshape(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    x = inputs[0]
    assert x is not None
    target = _ints(inputs[1]) if opset >= 5 else _attr_ints(node, "shape")
    if target is None:
        return None
    if not _attr_int(node, "allowzero", 0):
        target = [x.shape[k] if d == 0 else d for k, d in enumerate(target)]
    elif 0 in target and -1 in target:
        return None
    if any(d < -1 for d in target) or target.count(-1) > 1:
        return None
    if -1 in target:
        rest = math.prod(d for d in target if d != -1)
        if rest == 0 or x.size % rest:
            return None
        target[target.index(-1)] = x.size // rest
    return [x.reshape(target)]


@_kernel("Flatten")
def _flatten(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    x = inputs[0]
    assert x is not None
    axis = _attr_int(node, "axis", 1)
    if not -x.ndim <= axis <= x.ndim:
        return None
    axis = axis + x.ndim if axis < 0 else axis
    return [x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))]


@_kernel("Transpose")
def _transpose(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    x = inputs[0]
    assert x is not None
    perm = _attr_ints(node, "perm")
    if perm is not None and sorted(perm) != list(range(x.ndim)):
        return None
    return [np.transpose(x, perm)]


@_kernel("Split")
def _split(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    x = inputs[0]
    assert x is not None
    axis = _axis(_attr_int(node, "axis", 0), x.ndim)
    count = len(node.outputs)
    extent = x.shape[axis]
    parts = (_ints(inputs[1]) if len(inputs) > 1 and inputs[1] is not None else None) if opset >= 13 else _attr_ints(node, "split")
    if parts is None:
        if opset >= 18:
            if _attr_int(node, "num_outputs", count) != count:
                return None
            each = -(-extent // count)
            parts = [each] * (count - 1) + [extent - each * (count - 1)]
        elif extent % count:
            return None
        else:
            parts = [extent // count] * count
    if len(parts) != count or sum(parts) != extent or min(parts, default=0) < 0:
        return None
    return np.split(x, np.cumsum(parts[:-1]).tolist(), axis)


@_kernel("Tile")
def _tile(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    if opset < 6:
        return None
    x, repeats = inputs[0], _ints(inputs[1])
    if x is None or len(repeats) != x.ndim or min(repeats, default=0) < 0:
        return None
    return [np.tile(x, repeats)]


@_kernel("Expand")
def _expand(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    x, target = inputs[0], _ints(inputs[1])
    if x is None or min(target, default=0) < 0:
        return None
    return [np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(target)))]


@_kernel("ConstantOfShape")
def _constant_of_shape(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    target = _ints(inputs[0])
    if min(target, default=0) < 0:
        return None
    value = node.attrs.get("value")
    if value is None:
        fill = np.zeros((), np.float32)
    else:
        fill = np.asarray(value.values)
        if fill.size != 1:
            return None
    return [np.broadcast_to(fill.reshape(()), tuple(target))]  # one element in memory, whatever the shape


@_kernel("Trilu")
def _trilu(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    x = inputs[0]
    if x is None or x.ndim < 2 or x.dtype not in _INTS | _FLOATS | {_BOOL}:
        return None
    k = int(inputs[1].item()) if len(inputs) > 1 and inputs[1] is not None else 0
    return [_like(np.triu(x, k) if _attr_int(node, "upper", 1) else np.tril(x, k), x.dtype)]


@_kernel("Where")
def _where(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    condition, x, y = inputs
    if condition is None or x is None or y is None or condition.dtype != _BOOL or x.dtype != y.dtype:
        return None
    return [np.where(condition, x, y)]


@_kernel("NonZero")
def _non_zero(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    x = inputs[0]
    if x is None or x.ndim == 0 or x.dtype not in _INTS | _FLOATS | {_BOOL}:
        return None
    return [np.stack(np.nonzero(x)).astype(np.int64)]


@_kernel("Range")
def _range(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    if any(x is None or x.dtype not in {np.dtype("i2"), np.dtype("i4"), np.dtype("i8")} or x.size != 1 for x in inputs):
        return None
    start, limit, delta = (int(x.item()) for x in inputs)  # type: ignore[union-attr]
    if delta == 0 or max(abs(start), abs(limit), abs(delta)) > 1 << 31:
        return None
    return [np.arange(start, limit, delta, dtype=inputs[0].dtype)]  # type: ignore[union-attr]


@_kernel("Cast")
def _cast(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    target = dtypes.find(node.attrs.get("to"))
    return None if inputs[0] is None or target is None else _converted(inputs[0], target.numpy)


@_kernel("CastLike")
def _cast_like(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    x, like = inputs
    return None if x is None or like is None else _converted(x, like.dtype)


def _converted(x: Array, to: np.dtype[Any]) -> Result:
    if x.dtype == to:
        return [x]
    if x.dtype == ml_dtypes.bfloat16 and to in _FLOATS:
        return [x.astype(to)]
    if x.dtype == np.float16 and to in _FLOATS:
        return [x.astype(to)]
    if x.dtype not in _INTS | _FLOATS | {_BOOL}:
        return None
    if to == ml_dtypes.bfloat16:  # equal for all 2^32 floats
        return [x.astype(to)] if x.dtype == np.float32 else None
    if to == np.float16:  # once rounded; double and 64-bit integers may be rounded twice
        return [x.astype(to)] if x.dtype == np.float32 or x.dtype.itemsize <= 2 else None
    if to not in _INTS | _FLOATS | {_BOOL}:
        return None
    if x.dtype in _FLOATS and to in _INTS:
        whole = np.trunc(x)
        info = np.iinfo(to)
        if not np.isfinite(whole).all() or (whole < float(info.min)).any() or (whole >= float(info.max) + (info.bits < 53)).any():
            return None
    return [x.astype(to)]


# -- arithmetic -----------------------------------------------------------------------------------


def _same_numbers(inputs: list[Array | None], allowed: Types) -> list[Array] | None:
    if any(x is None for x in inputs) or len({x.dtype for x in inputs if x is not None}) != 1:
        return None
    return inputs if inputs[0].dtype in allowed else None  # type: ignore[union-attr,return-value]


def _binary(function: Any, allowed: Types, since: int = 7) -> Kernel:
    def run(node: Node, opset: int, inputs: list[Array | None]) -> Result:
        pair = _same_numbers(inputs, allowed)
        if pair is None or len(pair) != 2 or (opset < since and (pair[0].shape != pair[1].shape or "axis" in node.attrs)):
            return None
        found = function(pair[0], pair[1])
        return None if found is None else [found]

    return run


_KERNELS["Add"] = _binary(lambda a, b: _like(np.add(a, b), a.dtype), _INTS | _FLOATS)
_KERNELS["Sub"] = _binary(lambda a, b: _like(np.subtract(a, b), a.dtype), _INTS | _FLOATS)
_KERNELS["Mul"] = _binary(lambda a, b: _like(np.multiply(a, b), a.dtype), _INTS | _FLOATS)


def _check_divisor(a: Array, b: Array, node_op: str) -> None:
    if not (b != 0).all():
        raise EvaluationError(f"{node_op} divides an integer by zero")
    if a.dtype.kind == "i" and a.size and b.size and (b == -1).any() and (a == np.iinfo(a.dtype).min).any():
        raise EvaluationError(f"{node_op} overflows: the smallest {a.dtype} is divided by -1")


def _divide(a: Array, b: Array) -> Array:
    if a.dtype in _FLOATS:
        return _like(np.divide(a, b), a.dtype)
    _check_divisor(a, b, "Div")
    if a.dtype.kind == "u":
        return _like(np.floor_divide(a, b), a.dtype)
    quotient = np.floor_divide(a, b)
    return _like(quotient + ((np.remainder(a, b) != 0) & ((a < 0) != (b < 0))), a.dtype)  # towards zero


_KERNELS["Div"] = _binary(_divide, _INTS | _FLOATS)


@_kernel("Mod")
def _mod(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    pair = _same_numbers(inputs, _INTS)
    if pair is None or len(pair) != 2:
        return None
    _check_divisor(pair[0], pair[1], "Mod")
    function = np.fmod if _attr_int(node, "fmod", 0) else np.remainder  # sign of the dividend, or of the divisor
    return [_like(function(*pair), pair[0].dtype)]


def _compare(function: Any, allowed: Types) -> Kernel:
    return _binary(lambda a, b: _like(function(a, b), _BOOL), allowed)


_KERNELS["Equal"] = _compare(np.equal, _INTS | _FLOATS | {_BOOL})
_KERNELS["Greater"] = _compare(np.greater, _INTS | _FLOATS)
_KERNELS["Less"] = _compare(np.less, _INTS | _FLOATS)
_KERNELS["GreaterOrEqual"] = _compare(np.greater_equal, _INTS | _FLOATS)
_KERNELS["LessOrEqual"] = _compare(np.less_equal, _INTS | _FLOATS)
_KERNELS["And"] = _compare(np.logical_and, frozenset({_BOOL}))
_KERNELS["Or"] = _compare(np.logical_or, frozenset({_BOOL}))
_KERNELS["Xor"] = _compare(np.logical_xor, frozenset({_BOOL}))


@_kernel("Not")
def _not(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    x = inputs[0]
    return None if x is None or x.dtype != _BOOL else [np.logical_not(x)]


def _unary(function: Any, allowed: Types) -> Kernel:
    def run(node: Node, opset: int, inputs: list[Array | None]) -> Result:
        x = inputs[0]
        return None if x is None or x.dtype not in allowed else [_like(function(x), x.dtype)]

    return run


_SIGNED: Types = frozenset(d for d in _INTS if d.kind == "i")
_KERNELS["Neg"] = _unary(np.negative, _SIGNED | _FLOATS)
_KERNELS["Abs"] = _unary(np.abs, _INTS | _FLOATS)
_KERNELS["Sqrt"] = _unary(np.sqrt, _FLOATS)  # rounded correctly by IEEE 754, so all implementations agree
_KERNELS["Floor"] = _unary(np.floor, _FLOATS)
_KERNELS["Ceil"] = _unary(np.ceil, _FLOATS)


def _without_nan(x: Array) -> bool:
    return x.dtype not in _FLOATS or not np.isnan(x).any()


def _extreme(function: Any) -> Kernel:
    def run(node: Node, opset: int, inputs: list[Array | None]) -> Result:
        parts = _same_numbers(inputs, _INTS | _FLOATS)
        if parts is None or opset < 8 or not all(map(_without_nan, parts)):
            return None
        found = parts[0]
        for x in parts[1:]:
            found = _like(function(found, x), x.dtype)
        return [found]

    return run


_KERNELS["Max"] = _extreme(np.maximum)
_KERNELS["Min"] = _extreme(np.minimum)


@_kernel("Clip")
def _clip(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    x = inputs[0]
    if x is None or opset < 11 or x.dtype not in _INTS | _FLOATS or not _without_nan(x):
        return None
    low, high = [*inputs[1:], None, None][:2]
    if (low is None or high is None) and x.dtype in _FLOATS and not np.isfinite(x).all():
        return None  # a bound that is left out is the largest number, not infinity
    for bound, function in ((low, np.maximum), (high, np.minimum)):
        if bound is not None:
            if bound.size != 1 or bound.dtype != x.dtype or not _without_nan(bound):
                return None
            x = _like(function(x, bound.reshape(())), x.dtype)
    return [x]


@_kernel("CumSum")
def _cum_sum(node: Node, opset: int, inputs: list[Array | None]) -> Result:
    x, at = inputs[0], inputs[1]
    if x is None or at is None or at.size != 1 or x.dtype not in {np.dtype("i4"), np.dtype("i8")} or x.ndim == 0:
        return None
    if _attr_int(node, "exclusive", 0) or _attr_int(node, "reverse", 0):
        return None
    return [np.cumsum(x, _axis(int(at.item()), x.ndim), dtype=x.dtype)]


def _reduction(function: Any, axes_input_since: int, allowed: Types, *, empty: bool) -> Kernel:
    def run(node: Node, opset: int, inputs: list[Array | None]) -> Result:
        x = inputs[0]
        if x is None or x.dtype not in allowed or not _without_nan(x) or (x.size == 0 and not empty):
            return None
        if node.op == "ReduceSum" and float(np.abs(x.astype(np.float64)).sum()) >= 2**53:
            return None  # ONNX Runtime may add up as double
        axes = _given_axes(node, opset, inputs, axes_input_since)
        if not axes:
            if _attr_int(node, "noop_with_empty_axes", 0):
                return [x]
            axes = list(range(x.ndim))
        keep = bool(_attr_int(node, "keepdims", 1))
        return [_like(function(x, tuple(_axes(axes, x.ndim)), keep), x.dtype)]

    return run


_WIDE_INTS: Types = frozenset({np.dtype("i4"), np.dtype("i8"), np.dtype("u4"), np.dtype("u8")})
_KERNELS["ReduceSum"] = _reduction(lambda x, axes, keep: np.sum(x, axes, dtype=x.dtype, keepdims=keep), 13, _WIDE_INTS, empty=True)
_KERNELS["ReduceProd"] = _reduction(lambda x, axes, keep: np.prod(x, axes, dtype=x.dtype, keepdims=keep), 18, _WIDE_INTS, empty=True)
_KERNELS["ReduceMax"] = _reduction(lambda x, axes, keep: np.max(x, axes, keepdims=keep), 18, _INTS | _FLOATS, empty=False)
_KERNELS["ReduceMin"] = _reduction(lambda x, axes, keep: np.min(x, axes, keepdims=keep), 18, _INTS | _FLOATS, empty=False)
