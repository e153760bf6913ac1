"""Operators that work element by element, and quantization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.analysis import shape_arithmetic
from onnx_gs.analysis.shape_arithmetic import Contents
from onnx_gs.analysis.shape_functions.operands import FAR, blank, broadcast, given, produced, static
from onnx_gs.analysis.shape_functions.table import handles
from onnx_gs.ir import dtypes

if TYPE_CHECKING:
    from onnx_gs.analysis.shape_values import ShapeFacts
    from onnx_gs.ir.dtypes import DataType
    from onnx_gs.ir.node import Node


@handles(
    "Relu", "LeakyRelu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Elu", "Selu", "Celu", "Softplus", "Softsign", "ThresholdedRelu", "Mish",
    "Gelu", "Swish", "Exp", "Log", "Sqrt", "Reciprocal", "Floor", "Ceil", "Round", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh",
    "Asinh", "Acosh", "Atanh", "Erf", "Softmax", "LogSoftmax", "Hardmax", "LRN", "LpNormalization", "MeanVarianceNormalization",
    "InstanceNormalization", "GroupNormalization", "RMSNormalization", "CumSum", "Trilu", "Shrink", "BitwiseNot", "ScatterND", "ScatterElements",
    "Scatter", "TensorScatter", "Clip", "ReverseSequence", "RotaryEmbedding", "ImageScaler", hands_on=True,
)  # fmt: skip
def _same(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    f.tell(node._outputs[0], f.dtype(x), f.shape(x))


for _op in ("BiasGelu", "FastGelu", "QuickGelu"):
    handles(_op, domain="com.microsoft")(_same)


@handles("Neg", "Abs", "Sign", "Not", attributes=False)
def _unary(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    known = f.contents(x)
    dtype = f.dtype(x)
    f.tell(node._outputs[0], dtype, f.shape(x), shape_arithmetic.unary(node.op, known, dtype) if known else None)


@handles("Identity", attributes=False)
def _identity(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    f.tell(node._outputs[0], f.dtype(x), f.shape(x), f.contents(x))


@handles("IsNaN", "IsInf", attributes=False)
def _to_bool(f: ShapeFacts, node: Node) -> None:
    f.tell(node._outputs[0], dtypes.BOOL, f.shape(node._inputs[0]))


@handles("Cast", "CastLike")
def _cast(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    to = dtypes.find(node.attrs["to"]) if node.op == "Cast" else f.dtype(node._inputs[1])
    known = f.contents(x)
    if known is None and to is not None and to.kind == "int" and to.bits >= 32:
        floats, shape = f.floats(x), static(f.shape(x))
        if floats is not None and shape is not None and all(v.is_integer() and abs(v) < FAR for v in floats):
            known = Contents(shape, tuple(int(v) for v in floats))
    f.tell(node._outputs[0], to, f.shape(x), shape_arithmetic.cast(known, to) if known and to is not None else None)


@handles(
    "Add", "Sub", "Mul", "Div", "Mod", "Pow", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "And", "Or", "Xor", "PRelu",
    "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", attributes=False,
)  # fmt: skip
def _binary(f: ShapeFacts, node: Node) -> None:
    a, b = node._inputs[0], node._inputs[1]
    dtype = dtypes.BOOL if node.op in shape_arithmetic.COMPARISONS else f.dtype(a) or (f.dtype(b) if node.op != "Pow" else None)
    contents = None
    x, y = f.shape(a), f.shape(b)
    first, second = f.contents(a), f.contents(b)
    if first is not None or second is not None:  # 0 times anything is 0, whatever the other operand holds
        first, second = first or blank(x), second or blank(y)
        if first is not None and second is not None and dtype is not None and dtype.kind != "float":
            contents = shape_arithmetic.binary(node.op, first, second, dtype)
    if f.opset < 7:  # the second operand is spread over the first one, by attributes
        return f.tell(node._outputs[0], dtype, x, contents if contents is not None and contents.shape == x else None)
    return f.tell(node._outputs[0], dtype, x if x == y else broadcast(f, x, y), contents)


@handles("Sum", "Mean", "Max", "Min", attributes=False)
def _variadic(f: ShapeFacts, node: Node) -> None:
    first = node._inputs[0]
    shape, contents, dtype = f.shape(first), f.contents(first), f.dtype(first)
    op = {"Sum": "Add"}.get(node.op, node.op)
    for t in list(node._inputs)[1:]:
        shape = broadcast(f, shape, f.shape(t))
        other = f.contents(t)
        contents = shape_arithmetic.binary(op, contents, other, dtype) if contents and other else None
    f.tell(node._outputs[0], dtype, shape, contents)


@handles("Where", attributes=False)
def _where(f: ShapeFacts, node: Node) -> None:
    c, x, y = node._inputs
    shape = broadcast(f, f.shape(c), broadcast(f, f.shape(x), f.shape(y)))
    parts = [f.contents(t) for t in (c, x, y)]
    if parts[0] is not None and (parts[1] is None or parts[2] is None):
        if all(i is True for i in parts[0].items):
            parts[2] = parts[1]
        elif all(i is False for i in parts[0].items):
            parts[1] = parts[2]
    contents = shape_arithmetic.where(*parts) if all(p is not None for p in parts) else None  # type: ignore[arg-type]
    if contents is not None and shape is not None and shape != contents.shape:
        contents = None
    f.tell(node._outputs[0], f.dtype(x) or f.dtype(y), shape, contents)


@handles("Dropout", hands_on=True)
def _dropout(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    f.tell(node._outputs[0], f.dtype(x), f.shape(x))
    if mask := produced(node, 1):
        f.tell(mask, dtypes.BOOL if f.opset >= 10 else f.dtype(x), f.shape(x))


@handles("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")
def _quantize(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    if node.op == "DynamicQuantizeLinear":
        for t, each in zip(node._outputs, (dtypes.UINT8, dtypes.FLOAT, dtypes.UINT8)):
            f.tell(t, each, f.shape(x) if t is node._outputs[0] else ())
        return
    zero = given(node, 2)
    dtype: DataType | None
    if node.op == "DequantizeLinear":
        dtype = dtypes.find(node.attrs.get("output_dtype") or None) or f.dtype(node._inputs[1])
    else:
        dtype = f.dtype(zero) if zero is not None else dtypes.find(node.attrs.get("output_dtype") or None) or dtypes.UINT8
    f.tell(node._outputs[0], dtype, f.shape(x))
