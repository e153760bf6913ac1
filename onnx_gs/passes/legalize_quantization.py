"""Quantization that TensorRT does not take as it is: by zero points, of int32, inside fused operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from onnx_gs.ir import dtypes
from onnx_gs.ir.shapes import is_static_dim
from onnx_gs.passes.legalizing import Case, Declined, Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.analysis.shape_values import ShapeFacts
    from onnx_gs.ir import Node, Tensor
    from onnx_gs.ir.dtypes import DataType
    from onnx_gs.passes.emitter import Emitter


#: The first opset with ``Round``, and with bounds of ``Clip`` as inputs.
_ROUND_SINCE = 11


def spelled_out(
    emit: Emitter, node: Node, x: Tensor, scale: Tensor, zero: Tensor | None, rank: int | None, narrow: DataType, facts: ShapeFacts
) -> Tensor:
    """Give ``QuantizeLinear``, or ``DequantizeLinear``, in float arithmetic.

    Args:
        emit: makes the nodes.
        node: the operator; its ``axis`` counts.
        x: what it reads, in whatever type.
        scale: the scale.
        zero: the zero point; None for 0.
        rank: the rank of ``x``, where it is known.
        narrow: the quantized type.
        facts: what is known about shapes and types.

    Returns:
        Quantized: whole numbers in the range of the type, as float32. Dequantized: numbers of the scale's type.
    """
    axis = int(node.attrs.get("axis", 1))
    known = facts.shape(scale)
    is_row = known is not None and len(known) == 1 and not (is_static_dim(known[0]) and int(known[0]) == 1)

    def fitted(t: Tensor) -> Tensor:
        made: Tensor = emit.cast(t, dtypes.FLOAT)
        if known is not None and len(known) == 1 and is_row and rank is not None:
            made = emit.reshape(made, [-1, *([1] * (rank - 1 - axis % rank))])
        elif known is not None and len(known) == 1 and not is_row:
            made = emit.reshape(made, emit.constant(np.zeros(0, np.int64)), [])
        return made

    s = fitted(scale)
    z = None if zero is None else fitted(zero)
    value: Tensor = emit.cast(x, dtypes.FLOAT)
    if node.op == "DequantizeLinear":
        moved = value if z is None else emit.elementwise("Sub", value, z)
        made: Tensor = emit.elementwise("Mul", moved, s)
        wanted = facts.dtype(node.outputs[0])
        return emit.cast(made, wanted) if wanted is not None else made
    info = np.iinfo(narrow.numpy)
    rounded = _rounded(emit, emit.elementwise("Div", value, s))
    if z is not None:
        rounded = emit.elementwise("Add", rounded, z)
    if emit.opset < _ROUND_SINCE:
        return emit.op("Clip", rounded, dtype=dtypes.FLOAT, shape=rounded.shape, min=float(info.min), max=float(info.max))
    return emit.op("Clip", rounded, emit.constant(np.float32(info.min)), emit.constant(np.float32(info.max)), dtype=dtypes.FLOAT, shape=rounded.shape)


def _rounded(emit: Emitter, x: Tensor) -> Tensor:
    """Round to whole numbers, halves to even ones; by ``Floor`` and comparisons where the opset has no ``Round``."""
    if emit.opset >= _ROUND_SINCE:
        return emit.elementwise("Round", x)
    half = emit.constant(np.float32(0.5))
    below = emit.elementwise("Floor", x)
    rest = emit.elementwise("Sub", x, below)
    halved = emit.elementwise("Mul", below, half)
    odd = emit.elementwise("Less", emit.elementwise("Floor", halved), halved, dtype=np.bool_)
    more = emit.elementwise("Greater", rest, half, dtype=np.bool_)
    tie = emit.elementwise("Not", emit.elementwise("Or", more, emit.elementwise("Less", rest, half, dtype=np.bool_)))
    up = emit.elementwise("Or", more, emit.elementwise("And", tie, odd))
    return emit.elementwise("Add", below, emit.cast(up, dtypes.FLOAT))


def _dequantize(case: Case) -> Sequence[Tensor | None] | None:
    """A float constant, or a multiplication: TensorRT dequantizes no int32."""
    x = case.node.inputs[0]
    if case.dtype(x) is not dtypes.INT32 or case.attribute("block_size"):
        return None
    values, scale, zero = case.array(0), case.array(1), case.array(2)
    if zero is not None and zero.any():
        raise Declined("int32 with a zero point other than 0")
    if values is not None and scale is not None:
        shaped = scale
        if scale.ndim == 1 and scale.size > 1:
            shaped = scale.reshape([-1, *([1] * (values.ndim - 1 - int(case.attribute("axis")) % values.ndim))])
        elif scale.ndim == 1:
            shaped = scale.reshape(())
        product = values.astype(np.float32) * shaped.astype(np.float32)
        return [case.emit.constant(product.astype(scale.dtype))]
    return [spelled_out(case.emit, case.node, case.typed(x), case.typed(case.node.inputs[1]), None, case.rank(x), dtypes.INT32, case.work.facts)]


def _operand(case: Case, k: int, axis: int) -> Tensor:
    """Dequantize an operand of a fused operator: tensor, scale and zero point follow each other."""
    x, scale, zero = (case.typed(t) for t in case.node.inputs[k : k + 3])
    if not zero.name:
        raise Declined("an operand without a zero point")
    return case.emit.op("DequantizeLinear", x, scale, zero, dtype=case.dtype(scale), shape=case.shape(x), axis=axis)


def _quantized(case: Case, made: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    return case.emit.op("QuantizeLinear", made, case.typed(scale), case.typed(zero), dtype=case.dtype(zero), shape=made.shape)


def _qlinear_matmul(case: Case) -> Sequence[Tensor | None] | None:
    """Dequantize, multiply, quantize."""
    ranks = [case.rank(case.node.inputs[k]) for k in (0, 3)]
    if any(r is None for r in ranks) or any(case.dtype(case.node.inputs[k]) is None for k in (0, 3, 7)):
        raise Declined("the ranks or element types are not known")
    if any((case.rank(case.node.inputs[k]) or 0) > 1 for k in (1, 4)):
        raise Declined("scales of more than one axis")
    a = _operand(case, 0, max((ranks[0] or 1) - 2, 0))
    b = _operand(case, 3, (ranks[1] or 1) - 1)
    made = case.emit.op("MatMul", a, b, dtype=a.dtype, shape=case.shape(case.node.outputs[0]))
    return [_quantized(case, made, case.node.inputs[6], case.node.inputs[7])]


def _qlinear_conv(case: Case) -> Sequence[Tensor | None] | None:
    """Dequantize, convolve, quantize; the int32 bias has the product of both scales."""
    inputs = case.node.inputs
    if any(case.rank(inputs[k]) is None or case.dtype(inputs[k]) is None for k in (0, 3)) or case.dtype(inputs[7]) is None:
        raise Declined("the ranks or element types are not known")
    x, w = _operand(case, 0, 1), _operand(case, 3, 0)
    bias: Tensor | None = None
    given = case.input(8)
    if given is not None:
        values, first, second = case.array(8), case.array(1), case.array(4)
        if values is not None and first is not None and second is not None:
            scale = (first.reshape(-1).astype(np.float32) * second.reshape(-1).astype(np.float32)).astype(np.float32)
            bias = case.emit.constant(values.astype(np.float32) * scale)
        else:
            product = case.emit.elementwise("Mul", case.typed(inputs[1]), case.typed(inputs[4]))
            bias = case.emit.elementwise("Mul", case.emit.cast(case.typed(given), dtypes.FLOAT), product)
    made = case.emit.op("Conv", x, w, bias, dtype=x.dtype, shape=case.shape(case.node.outputs[0]), **case.node.attrs)
    return [_quantized(case, made, inputs[6], inputs[7])]


# -- ONNX Runtime's own fused operators --------------------------------------------------------------


def _binary(op: str) -> Rule:
    def rule(case: Case) -> Sequence[Tensor | None] | None:
        """Dequantize, compute, quantize."""
        a, b = _operand(case, 0, 0), _operand(case, 3, 0)
        made = case.emit.elementwise(op, a, b)
        return [_quantized(case, made, case.node.inputs[6], case.node.inputs[7])]

    return rule


def _unary(op: str, *attributes: str) -> Rule:
    def rule(case: Case) -> Sequence[Tensor | None] | None:
        """Dequantize, compute, quantize."""
        if case.node.attrs.get("channels_last", 0):
            raise Declined("channels stand last")
        given = {name: case.node.attrs[name] for name in attributes if name in case.node.attrs}
        made = case.emit.op(op, _operand(case, 0, 0), dtype=dtypes.FLOAT, shape=case.shape(case.node.outputs[0]), **given)
        return [_quantized(case, made, case.node.inputs[3], case.node.inputs[4])]

    return rule


def _qlinear_concat(case: Case) -> Sequence[Tensor | None] | None:
    """Dequantize, join, quantize."""
    parts = [_operand(case, k, 0) for k in range(2, len(case.node.inputs), 3)]
    made = case.emit.op("Concat", *parts, dtype=dtypes.FLOAT, shape=case.shape(case.node.outputs[0]), axis=int(case.node.attrs["axis"]))
    return [_quantized(case, made, case.node.inputs[0], case.node.inputs[1])]


def _qgemm(case: Case) -> Sequence[Tensor | None] | None:
    """Dequantize, multiply, quantize where a result scale is given; the int32 bias has the product of both scales."""
    inputs, attrs = case.node.inputs, case.node.attrs
    alpha = float(attrs.get("alpha", 1.0))
    a, b = _operand(case, 0, 0), _operand(case, 3, 0 if attrs.get("transB", 0) else 1)
    bias: Tensor | None = None
    given = case.input(6)
    if given is not None:
        scale = case.emit.elementwise("Mul", case.typed(inputs[1]), case.typed(inputs[4]))
        if alpha != 1.0:
            scale = case.emit.elementwise("Mul", scale, case.emit.constant(np.float32(alpha)))
        bias = case.emit.elementwise("Mul", case.emit.cast(case.typed(given), dtypes.FLOAT), scale)
    options = {name: attrs[name] for name in ("alpha", "transA", "transB") if name in attrs}
    made = case.emit.op("Gemm", a, b, bias, dtype=dtypes.FLOAT, shape=case.shape(case.node.outputs[0]), **options)
    scale_out, zero_out = case.input(7), case.input(8)
    if scale_out is None:
        return [made]
    if zero_out is None:
        raise Declined("a result scale without a zero point")
    return [_quantized(case, made, scale_out, zero_out)]


#: Rules for operators of ONNX's own domain.
RULES: dict[str, Rule] = {"DequantizeLinear": _dequantize, "QLinearMatMul": _qlinear_matmul, "QLinearConv": _qlinear_conv}
#: Rules for what ONNX Runtime's quantizer adds under the domain ``com.microsoft``.
MICROSOFT_RULES: dict[str, Rule] = {
    "QLinearAdd": _binary("Add"),
    "QLinearMul": _binary("Mul"),
    "QLinearSigmoid": _unary("Sigmoid"),
    "QLinearLeakyRelu": _unary("LeakyRelu", "alpha"),
    "QLinearGlobalAveragePool": _unary("GlobalAveragePool"),
    "QLinearAveragePool": _unary("AveragePool", "auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"),
    "QLinearSoftmax": _unary("Softmax", "axis"),
    "QLinearConcat": _qlinear_concat,
    "QGemm": _qgemm,
}
