"""Matrix products and convolutions of integers: TensorRT multiplies floats only, which are exact while the sums stay small."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onnx_gs.ir import dtypes
from onnx_gs.passes.legalizing import Case, Declined, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.ir import Tensor

_EXACT = 1 << 24  # integers up to here, and sums of them that stay here, are exact in float32
_MOST_PRODUCTS = 1 << 22
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
    return made, 255 if point is not None or dtype.kind == "uint" else 128


def _matmul_integer(case: Case) -> Sequence[Tensor | None] | None:
    """A MatMul of floats: every sum is an integer that float32 holds."""
    x = case.shape(case.node.inputs[0])
    if x is None or not x or x[-1] is None:
        raise Declined("the length of the sums is not known")
    a, most_a = _as_floats(case, 0, 2)
    b, most_b = _as_floats(case, 1, 3)
    if x[-1] * most_a * most_b > _EXACT:
        raise Declined(f"sums of {x[-1]} products may be larger than float32 holds exactly")
    made = case.emit.op("MatMul", a, b, dtype=dtypes.FLOAT, shape=case.shape(case.node.outputs[0]))
    return [case.emit.cast(made, dtypes.INT32)]


def _conv_integer(case: Case) -> Sequence[Tensor | None] | None:
    """A Conv of floats: every sum is an integer that float32 holds."""
    w = case.shape(case.node.inputs[1])
    if w is None or any(d is None for d in w[1:]):
        raise Declined("the length of the sums is not known")
    a, most_a = _as_floats(case, 0, 2)
    b, most_b = _as_floats(case, 1, 3)
    count = int(np.prod([int(d) for d in w[1:]]))
    if count * most_a * most_b > _EXACT:
        raise Declined(f"sums of {count} products may be larger than float32 holds exactly")
    made = case.emit.op("Conv", a, b, dtype=dtypes.FLOAT, shape=case.shape(case.node.outputs[0]), **case.node.attrs)
    return [case.emit.cast(made, dtypes.INT32)]


RULES: dict[str, tuple[Rule, ...]] = {"MatMul": (_integer_matmul,), "MatMulInteger": (_matmul_integer,), "ConvInteger": (_conv_integer,)}
