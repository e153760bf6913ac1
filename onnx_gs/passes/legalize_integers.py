"""Matrix products and convolutions of integers: TensorRT multiplies floats only, which are exact while the sums stay small."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.ir import dtypes
from onnx_gs.passes.legalizing import Case, Declined, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.ir import Tensor

_EXACT = 1 << 24  # integers up to here, and sums of them that stay here, are exact in float32
_MOST_PRODUCTS = 1 << 22
_MOST_PIECES = 32
_VECTOR, _MATRIX = 1, 2


def _integer_matmul(case: Case) -> Sequence[Tensor | None] | None:
    """Products along a new axis, summed: exact in integers."""
    dtype = case.dtype(case.node.inputs[0])
    if dtype is None or dtype.kind not in {"int", "uint"}:
        return None
    a, b = (case.typed(t) for t in case.node.inputs)
    x, y = case.shape(a), case.shape(b)
    if x is None or y is None or not x or not y:
        raise Declined("the ranks are not known")
    rows = x[-2] if len(x) >= _MATRIX else 1
    columns = y[-1] if len(y) >= _MATRIX else 1
    sizes = [*x[:-2], *y[:-2], rows, x[-1], columns]
    if any(d is None for d in sizes) or int(np.prod([int(d) for d in sizes])) > _MOST_PRODUCTS:
        raise Declined("the product of integers is large, or its sizes are not known")
    emit = case.emit
    left = emit.unsqueeze(a, [-1]) if len(x) >= _MATRIX else emit.unsqueeze(a, [0, 2])  # [.., M, K, 1]
    right = emit.unsqueeze(b, [-3]) if len(y) >= _MATRIX else emit.unsqueeze(b, [0, 2])  # [.., 1, K, N]
    made = emit.elementwise("Mul", left, right)
    summed: Tensor = emit.reduce("ReduceSum", made, [len(made.shape) - 2], keepdims=False)
    gone = [k for k, vector in ((-2, len(x) == _VECTOR), (-1, len(y) == _VECTOR)) if vector]
    if gone:
        summed = emit.squeeze(summed, [k % len(summed.shape) for k in gone])
    return [summed]


def _as_floats(case: Case, k: int, zero: int) -> tuple[Tensor, int]:
    """Give an operand as exact floats without its zero point, and the largest absolute value."""
    emit = case.emit
    x = case.typed(case.node.inputs[k])
    made: Tensor = emit.cast(x, dtypes.FLOAT)
    dtype = case.dtype(x)
    if dtype is None:
        raise Declined("the element types are not known")
    point = case.input(zero)
    if point is not None:
        shape = case.shape(point)
        if shape is None:
            raise Declined("the zero point's rank is not known")
        shift: Tensor = emit.cast(case.typed(point), dtypes.FLOAT)
        if shape and shape != [1]:
            if case.node.op == "ConvInteger" and k == 1:
                shift = emit.reshape(shift, [-1, 1, 1, *([1] * ((case.rank(x) or 4) - 3))])
            elif k == 0:
                shift = emit.unsqueeze(shift, [-1])  # a row each
        made = emit.elementwise("Sub", made, shift)
    known = case.array(zero)
    if known is not None and known.size:  # what is left of the range on the longer side of the zero point
        info = np.iinfo(dtype.numpy)
        return made, max(int(known.max()) - info.min, info.max - int(known.min()))
    return made, 255 if point is not None or dtype.kind == "uint" else 128


def _weights(case: Case) -> np.ndarray[Any, Any] | None:
    """Give the absolute values of a constant second operand without its zero point."""
    values, point = case.array(1), case.array(3)
    if values is None or (case.input(3) is not None and point is None):
        return None
    if point is None or point.size == 1:
        return np.asarray(np.abs(values.astype(np.int64) - (0 if point is None else int(point.reshape(())))))
    shape = [-1, *([1] * (values.ndim - 1))] if case.node.op == "ConvInteger" else [-1]
    return np.asarray(np.abs(values.astype(np.int64) - point.astype(np.int64).reshape(shape)))


def _pieces(length: int, most: int) -> list[int]:
    """Cut the terms of a sum so that each piece is exact.

    Args:
        length: how many terms there are.
        most: how many are exact together.
    """
    if most < 1 or length > most * _MOST_PIECES:
        raise Declined(f"sums of {length} products may be larger than float32 holds exactly")
    return [most] * (length // most) + ([length % most] if length % most else [])


def _matmul_integer(case: Case) -> Sequence[Tensor | None] | None:
    """A MatMul of floats: every sum is an integer that float32 holds; longer sums in pieces, added as int32."""
    x, y = case.shape(case.node.inputs[0]), case.shape(case.node.inputs[1])
    if x is None or y is None or not x or not y or x[-1] is None:
        raise Declined("the length of the sums is not known")
    a, most_a = _as_floats(case, 0, 2)
    b, most_b = _as_floats(case, 1, 3)
    weights, length = _weights(case), int(x[-1])
    sums = length * most_b if weights is None else int(weights.sum(axis=max(weights.ndim - 2, 0)).max(initial=0))
    emit, out = case.emit, case.shape(case.node.outputs[0])
    if sums * most_a <= _EXACT:
        return [emit.cast(emit.op("MatMul", a, b, dtype=dtypes.FLOAT, shape=out), dtypes.INT32)]
    sizes = _pieces(length, _EXACT // (most_a * most_b))
    left = emit.split(a, sizes, len(x) - 1, len(sizes))
    right = emit.split(b, sizes, max(len(y) - 2, 0), len(sizes))
    made = [emit.cast(emit.op("MatMul", p, q, dtype=dtypes.FLOAT, shape=out), dtypes.INT32) for p, q in zip(left, right)]
    return [_added(case, made)]


def _added(case: Case, parts: Sequence[Tensor]) -> Tensor:
    made = parts[0]
    for part in parts[1:]:
        made = case.emit.elementwise("Add", made, part)
    return made


def _conv_integer(case: Case) -> Sequence[Tensor | None] | None:
    """A Conv of floats: every sum is an integer that float32 holds; longer sums by groups of input channels, added as int32."""
    w = case.shape(case.node.inputs[1])
    if w is None or any(d is None for d in w[1:]):
        raise Declined("the length of the sums is not known")
    a, most_a = _as_floats(case, 0, 2)
    b, most_b = _as_floats(case, 1, 3)
    channels, window = int(w[1]), int(np.prod([int(d) for d in w[2:]]))
    weights = _weights(case)
    sums = channels * window * most_b if weights is None else int(weights.reshape(len(weights), -1).sum(1).max(initial=0))
    emit, out = case.emit, case.shape(case.node.outputs[0])
    if sums * most_a <= _EXACT:
        return [emit.cast(emit.op("Conv", a, b, dtype=dtypes.FLOAT, shape=out, **case.node.attrs), dtypes.INT32)]
    if int(case.node.attrs.get("group", 1)) != 1:
        raise Declined("long sums in groups")
    sizes = _pieces(channels, _EXACT // (most_a * most_b * window))
    pairs = zip(emit.split(a, sizes, 1, len(sizes)), emit.split(b, sizes, 1, len(sizes)))
    return [_added(case, [emit.cast(emit.op("Conv", p, q, dtype=dtypes.FLOAT, shape=out, **case.node.attrs), dtypes.INT32) for p, q in pairs])]


RULES: dict[str, tuple[Rule, ...]] = {"MatMul": (_integer_matmul,), "MatMulInteger": (_matmul_integer,), "ConvInteger": (_conv_integer,)}
