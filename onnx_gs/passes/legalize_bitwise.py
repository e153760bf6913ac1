"""Bitwise operators as arithmetic: TensorRT has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onnx_gs.ir import dtypes
from onnx_gs.passes.legalizing import Case, Declined, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from onnx_gs.ir import Tensor
    from onnx_gs.ir.dtypes import DataType
    from onnx_gs.passes.emitter import Emitter

#: Element types whose bits fit an int64 with room for the sign.
_WIDTHS = {"INT8": 8, "UINT8": 8, "INT16": 16, "UINT16": 16, "INT32": 32, "UINT32": 32}


def _not(case: Case) -> Sequence[Tensor | None] | None:
    """All bits set, minus the value: -1 - x, or the largest value minus x."""
    x = case.node.inputs[0]
    dtype = case.dtype(x)
    if dtype is None or dtype.kind not in {"int", "uint"}:
        raise Declined("the element type is not known, or has no bits to turn")
    ones = -1 if dtype.kind == "int" else np.iinfo(dtype.numpy).max
    return [case.emit.elementwise("Sub", case.emit.constant(np.array(ones, dtype.numpy)), case.typed(x))]


def _two(combine: Callable[[Emitter, Tensor, Tensor], Tensor]) -> Rule:
    def rule(case: Case) -> Sequence[Tensor | None] | None:
        """Bit by bit: both operands as 0s and 1s along a new axis, combined there, and summed with their powers of two."""
        dtype = case.dtype(case.node.inputs[0])
        if dtype is None or dtype.kind not in {"int", "uint"}:
            raise Declined("the element type is not known, or has no bits")
        a, b = (case.typed(t) for t in case.node.inputs)
        if any(case.rank(t) is None for t in (a, b)):
            raise Declined("the operands' ranks are not known")
        if dtype.name in _WIDTHS:
            bits = _WIDTHS[dtype.name]
            made = _combined(case.emit, case.emit.cast(a, dtypes.INT64), case.emit.cast(b, dtypes.INT64), bits, combine)
            if dtype.kind == "int":
                made = _signed(case.emit, made, bits)
            return [case.emit.cast(made, dtype)]
        if dtype is not dtypes.INT64:
            raise Declined(f"{dtype.name.lower()} has more bits than can be taken apart")
        (low_a, high_a), (low_b, high_b) = _halves(case.emit, a), _halves(case.emit, b)
        low = _combined(case.emit, low_a, low_b, 32, combine)
        high = _signed(case.emit, _combined(case.emit, high_a, high_b, 32, combine), 32)
        return [case.emit.elementwise("Add", case.emit.elementwise("Mul", high, case.emit.constant(np.int64(1 << 32))), low)]

    return rule


def _halves(emit: Emitter, x: Tensor) -> tuple[Tensor, Tensor]:
    """Give the lower and the upper 32 bits of an int64, the lower ones as a number of at least 0."""
    size = emit.constant(np.int64(1 << 32))
    low = emit.elementwise("Mod", x, size)
    return low, emit.elementwise("Div", emit.elementwise("Sub", x, low), size)


def _combined(emit: Emitter, a: Tensor, b: Tensor, bits: int, combine: Callable[[Emitter, Tensor, Tensor], Tensor]) -> Tensor:
    powers = emit.constant(np.array([1 << k for k in range(bits)], np.int64))
    rank = max(len(a.shape), len(b.shape))
    sides = []
    for x in (a, b):
        positive = emit.elementwise("Mod", x, emit.constant(np.int64(1 << bits)))
        column = emit.unsqueeze(positive, [-1])
        sides.append(emit.elementwise("Mod", emit.elementwise("Div", column, powers), emit.constant(np.int64(2))))
    return emit.reduce("ReduceSum", emit.elementwise("Mul", combine(emit, *sides), powers), [rank], keepdims=False)


def _signed(emit: Emitter, x: Tensor, bits: int) -> Tensor:
    """Read a number of that many bits as a signed one."""
    half = emit.constant(np.int64(1 << (bits - 1)))
    raised = emit.elementwise("Mod", emit.elementwise("Add", x, half), emit.constant(np.int64(1 << bits)))
    return emit.elementwise("Sub", raised, half)


def _and(emit: Emitter, a: Tensor, b: Tensor) -> Tensor:
    return emit.elementwise("Mul", a, b)


def _or(emit: Emitter, a: Tensor, b: Tensor) -> Tensor:
    return emit.elementwise("Max", a, b)


def _xor(emit: Emitter, a: Tensor, b: Tensor) -> Tensor:
    return emit.elementwise("Mod", emit.elementwise("Add", a, b), emit.constant(np.int64(2)))


def _shift(case: Case) -> Sequence[Tensor | None] | None:
    """Multiply or divide by a power of two: the shift is known."""
    x = case.node.inputs[0]
    by = case.array(1)
    dtype = case.dtype(x)
    if by is None or dtype is None:
        raise Declined("the shift is computed at run time, or the element type is not known")
    bits = _WIDTHS.get(dtype.name)
    if bits is None or (by.astype(np.int64) >= bits).any():
        raise Declined("the shift is as wide as the type, or the type has 64 bits")
    wide = case.emit.cast(case.typed(x), dtypes.INT64)
    factor = case.emit.constant(np.int64(1) << by.astype(np.int64))
    if case.attribute("direction") == "RIGHT":
        return [case.emit.cast(case.emit.elementwise("Div", wide, factor), dtype)]
    moved = case.emit.elementwise("Mod", case.emit.elementwise("Mul", wide, factor), case.emit.constant(np.int64(1 << bits)))
    return [case.emit.cast(moved, dtype)]


def width(dtype: DataType) -> int | None:
    """Give the number of bits of an integer type that is taken apart here."""
    return _WIDTHS.get(dtype.name)


RULES: dict[str, tuple[Rule, ...]] = {
    "BitwiseNot": (_not,),
    "BitwiseAnd": (_two(_and),),
    "BitwiseOr": (_two(_or),),
    "BitwiseXor": (_two(_xor),),
    "BitShift": (_shift,),
}
