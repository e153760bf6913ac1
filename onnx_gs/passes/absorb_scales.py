"""Multiplications by powers of two that the weights behind them, or another constant factor, can take over without rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from onnx_gs.ir import dtypes
from onnx_gs.ir.tensor import Constant
from onnx_gs.passes.rewriting import NodePass, Work

if TYPE_CHECKING:
    from onnx_gs.ir import Graph, Node
    from onnx_gs.ir.tensor import Tensor

_MOST_BYTES = 1 << 24
_WEIGHTED = {"Conv": (1,), "ConvTranspose": (1,), "MatMul": (1,), "Gemm": (1,)}


@dataclass(frozen=True)
class AbsorbScales(NodePass):
    """Let weights take over a factor 1/2, 1/4, 1/8, …, and make one of two factors.

    A power of two changes the exponent only, so every product and sum keeps its bits. The one exception are inputs and weights so small that the
    factor makes them subnormal (below 2^-126 in float32), where rounding falls on the other operand then.

    Matches:   ``Mul`` of a float32 or float64 tensor by a constant 2^-k, read only by ``Conv``, ``ConvTranspose``, ``MatMul`` or ``Gemm`` as data,
               whose weights are constants that nothing else reads; ``Mul`` of ``Mul`` by two powers of two of at least 1, or by two integers.
    Rewrites:  the weights are multiplied instead; the two factors become one.
    Declines:  weights that are not finite; weights of more than 16 MiB.

    Args:
        keep_subnormals: leave every factor below 1 where it is.
    """

    name: ClassVar[str] = "absorb-scales"
    ops: ClassVar[tuple[str, ...]] = ("Mul",)
    keep_subnormals: bool = False

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Absorb or merge one factor."""
        found = _factor(work, node)
        if found is None:
            return
        factor, constant, x = found
        if _merge(work, owner, node, factor, x):
            return
        mantissa, exponent = math.frexp(factor) if isinstance(factor, float) else (0.0, 0)
        if self.keep_subnormals or mantissa != 0.5 or exponent > 0 or constant.shape not in {(), (1,)}:
            return
        y = node._outputs[0]
        readers = list(y._outputs)
        if work.edit.listed_by(y) or len(readers) != 1 or work.edit.holder.get(id(readers[0])) is not owner:
            return
        reader = readers[0]
        places = _WEIGHTED.get(reader.op) if reader.is_onnx else None
        if places is None or reader._inputs[0] is not y:
            return
        weight = reader._inputs[1]
        if not isinstance(weight, Constant) or not work.is_private(weight) or weight.nbytes > _MOST_BYTES or weight._export_dtype is not None:
            return
        values = weight.peek()
        if values.dtype not in {np.dtype(np.float32), np.dtype(np.float64)} or work.facts.dtype(x) is not dtypes.of(weight):
            return
        if not (np.isfinite(values.min(initial=0)) and np.isfinite(values.max(initial=0))):
            return
        scaled = values * values.dtype.type(factor)  # exact, but where it is subnormal
        work.report.rewrote(owner, node, f"the weights of '{reader.name or reader.op}' take over the factor {factor}")
        reader._inputs[1] = work.constant(weight.name, scaled)
        work.edit.bypass(owner, node, x)


def _factor(work: Work, node: Node) -> tuple[float | int, Constant, Tensor] | None:
    """Give the one constant factor of a ``Mul``, and what it multiplies."""
    a, b = node._inputs
    for constant, x in ((b, a), (a, b)):
        if not isinstance(constant, Constant) or isinstance(x, Constant) or constant.nbytes > 8 or len(constant.shape) > 1 or 0 in constant.shape:
            continue
        rank = work.facts.rank(x)
        if constant.shape and (constant.shape != (1,) or not rank):
            continue
        known = dtypes.of(constant)
        if known in {dtypes.FLOAT, dtypes.DOUBLE, dtypes.INT32, dtypes.INT64}:
            return constant.values.item(), constant, x
    return None


def _merge(work: Work, owner: Graph, node: Node, factor: float | int, x: Tensor) -> bool:
    inner = work.producer(x, "Mul")
    if inner is None or not work.is_private(x) or work.edit.holder.get(id(inner)) is not owner:
        return False
    found = _factor(work, inner)
    if found is None:
        return False
    first, constant, source = found
    if isinstance(factor, float):
        both = [math.frexp(f) for f in (first, factor)]
        if any(mantissa != 0.5 or exponent < 1 for mantissa, exponent in both):
            return False
    array = np.array(first, constant.values.dtype) * np.array(factor, constant.values.dtype)
    if not np.isfinite(array):
        return False
    work.report.rewrote(owner, node, "one factor instead of two")
    node.inputs = [source, work.constant(f"{constant.name}_product", np.asarray(array))]
    return True
