"""ONNX operators as TensorRT layers: one table, for the operators that stand between and inside loops and conditionals.

An operator that is not here, or is used in a way that its lowering does not cover, raises ``Unlowered``; the ONNX parser takes it then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.ir import dtypes
from onnx_gs.trt.tensorrt import trt

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnx_gs.trt.network_builder import NetworkBuilder

    Lowering = Callable[[NetworkBuilder, list[Any], dict[str, Any]], Any]


class Unlowered(Exception):  # noqa: N818 - a decision, not an error of the user
    """A use of an operator that has no lowering."""


def _is_tensor(value: Any) -> bool:
    return isinstance(value, trt.ITensor)


def _array(value: Any, what: str) -> np.ndarray[Any, Any]:
    """Give the values of a constant operand."""
    if value is None or _is_tensor(value):
        raise Unlowered(f"{what} is computed at run time")
    return np.asarray(value)


def scalar_int(net: NetworkBuilder, value: Any) -> Any:
    """Give a 0-D tensor of what may be a 0-D or one-element tensor."""
    tensor = net.tensor(value)
    return reshape(net, tensor, ()) if len(tensor.shape) else tensor


def reshape(net: NetworkBuilder, tensor: Any, shape: tuple[int, ...], *, copy_zeros: bool = True) -> Any:
    """Give a tensor of another shape; -1 stands for the rest, 0 for the input's dim there."""
    layer = net.network.add_shuffle(tensor)
    layer.zero_is_placeholder = copy_zeros
    layer.reshape_dims = shape
    return layer.get_output(0)


def unsqueeze(net: NetworkBuilder, tensor: Any, axes: list[int]) -> Any:
    """Add dims of size 1 at ``axes`` of the result."""
    if not axes:
        return tensor
    return net.network.add_unsqueeze(tensor, net.constant(np.array(axes, np.int32))).get_output(0)


def same_rank(net: NetworkBuilder, *operands: Any) -> list[Any]:
    """Give operands of equal rank: TensorRT broadcasts dims of size 1, but not missing ones."""
    tensors = [net.tensor(operand) for operand in operands]
    rank = max(len(t.shape) for t in tensors)
    return [unsqueeze(net, t, list(range(rank - len(t.shape)))) for t in tensors]


def typed_operands(net: NetworkBuilder, operands: list[Any]) -> list[Any]:
    """Turn plain numbers into constants of the other operand's type."""
    known = next((o for o in operands if _is_tensor(o)), None)
    if known is None:
        return [net.tensor(o) for o in operands]
    numpy_of = {"FLOAT": np.float32, "HALF": np.float16, "INT32": np.int32, "INT64": np.int64, "BOOL": np.bool_}
    wanted = numpy_of.get(known.dtype.name)
    return [
        net.constant(np.asarray(o, wanted)) if wanted and not _is_tensor(o) and not isinstance(o, np.ndarray) else net.tensor(o) for o in operands
    ]


def _binary(operation: str) -> Lowering:
    def lower(net: NetworkBuilder, inputs: list[Any], attributes: dict[str, Any]) -> Any:
        operands = same_rank(net, *typed_operands(net, inputs))
        result = operands[0]
        for operand in operands[1:]:
            result = elementwise(net, operation, result, operand)
        return result

    return lower


def elementwise(net: NetworkBuilder, operation: str, a: Any, b: Any) -> Any:
    """Add one elementwise layer."""
    layer = net.network.add_elementwise(a, b, getattr(trt.ElementWiseOperation, operation))
    return None if layer is None else layer.get_output(0)


def _or_equal(operation: str) -> Lowering:
    # not (a < b) would be true for NaN, where ONNX says false
    def lower(net: NetworkBuilder, inputs: list[Any], attributes: dict[str, Any]) -> Any:
        a, b = same_rank(net, *typed_operands(net, inputs))
        return elementwise(net, "OR", elementwise(net, operation, a, b), elementwise(net, "EQUAL", a, b))

    return lower


def _float_binary(operation: str) -> Lowering:
    plain = _binary(operation)

    def lower(net: NetworkBuilder, inputs: list[Any], attributes: dict[str, Any]) -> Any:
        operands = typed_operands(net, inputs)
        if any(t.dtype.name not in {"FLOAT", "HALF", "BF16"} for t in operands):
            raise Unlowered(f"{operation} of integers")
        return plain(net, operands, attributes)

    return lower


def _unary(operation: str) -> Lowering:
    def lower(net: NetworkBuilder, inputs: list[Any], attributes: dict[str, Any]) -> Any:
        if attributes:
            raise Unlowered(f"attributes {sorted(attributes)}")
        tensor = net.tensor(inputs[0])
        layer = net.network.add_unary(tensor, getattr(trt.UnaryOperation, operation))
        return None if layer is None else layer.get_output(0)

    return lower


def _activation(kind: str, alpha: tuple[str, float] | float | None = None, beta: tuple[str, float] | float | None = None) -> Lowering:
    def lower(net: NetworkBuilder, inputs: list[Any], attributes: dict[str, Any]) -> Any:
        tensor = net.tensor(inputs[0])
        if tensor.dtype.name not in {"FLOAT", "HALF", "BF16"}:
            raise Unlowered(f"{kind} of {tensor.dtype.name}")
        layer = net.network.add_activation(tensor, getattr(trt.ActivationType, kind))
        for field, setting in (("alpha", alpha), ("beta", beta)):
            if setting is not None:
                setattr(layer, field, float(attributes.get(*setting)) if isinstance(setting, tuple) else setting)
        return layer.get_output(0)

    return lower


def _mat_mul(net: NetworkBuilder, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    a, b = (net.tensor(i) for i in inputs)
    if a.dtype.name not in {"FLOAT", "HALF", "BF16"}:
        raise Unlowered(f"MatMul of {a.dtype.name}")
    vectors = [len(t.shape) == 1 for t in (a, b)]
    if len(a.shape) == 0 or len(b.shape) == 0:
        raise Unlowered("MatMul of a scalar")
    ranks = [len(t.shape) + (1 if v else 0) for t, v in zip((a, b), vectors)]
    rank = max(ranks)
    a, b = (unsqueeze(net, t, list(range(rank - r))) for t, r in zip((a, b), ranks))
    ops = [trt.MatrixOperation.VECTOR if v else trt.MatrixOperation.NONE for v in vectors]
    return net.network.add_matrix_multiply(a, ops[0], b, ops[1]).get_output(0)


def _axes(value: Any, rank: int) -> list[int]:
    return [int(a) + rank if a < 0 else int(a) for a in np.asarray(value).reshape(-1)]


def _reduce(operation: str) -> Lowering:
    def lower(net: NetworkBuilder, inputs: list[Any], attributes: dict[str, Any]) -> Any:
        tensor = net.tensor(inputs[0])
        given = _array(inputs[1], "axes") if len(inputs) > 1 and inputs[1] is not None else attributes.get("axes")
        axes = _axes(given, len(tensor.shape)) if given is not None else []
        if not axes:
            if attributes.get("noop_with_empty_axes", 0):
                return net.network.add_identity(tensor).get_output(0)
            axes = list(range(len(tensor.shape)))
        if not axes:
            raise Unlowered("a reduction of a scalar")
        if tensor.dtype.name == "BOOL":
            raise Unlowered("a reduction of bool")
        mask = sum(1 << a for a in axes)
        return net.network.add_reduce(tensor, getattr(trt.ReduceOperation, operation), mask, bool(attributes.get("keepdims", 1))).get_output(0)

    return lower


def _shape(net: NetworkBuilder, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    tensor = net.tensor(inputs[0])
    rank = len(tensor.shape)
    start, end = (min(max(v + rank if v < 0 else v, 0), rank) for v in (attributes.get("start", 0), attributes.get("end", rank)))
    whole = net.network.add_shape(tensor).get_output(0)
    if (start, end) == (0, rank):
        return whole
    return net.network.add_slice(whole, (start,), (max(end - start, 0),), (1,)).get_output(0)


def dim(net: NetworkBuilder, tensor: Any, axis: int) -> Any:
    """Give the size of one dim as a 0-D int64 tensor."""
    return net.network.add_gather(net.network.add_shape(tensor).get_output(0), net.constant(np.int64(axis)), 0).get_output(0)


def _gather(net: NetworkBuilder, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    tensor = net.tensor(inputs[0])
    axis = attributes.get("axis", 0)
    axis = axis + len(tensor.shape) if axis < 0 else axis
    if not _is_tensor(inputs[1]) and (np.asarray(inputs[1]) >= 0).all():
        return net.network.add_gather(tensor, net.constant(np.asarray(inputs[1])), axis).get_output(0)
    # ONNX counts negative indices from the end; TensorRT's layer does not
    indices = net.tensor(inputs[1])
    size = _cast_to(net, dim(net, tensor, axis), indices.dtype)
    indices, size, zero = same_rank(net, indices, size, _cast_to(net, net.constant(np.int64(0)), indices.dtype))
    negative = elementwise(net, "LESS", indices, zero)
    counted = net.network.add_select(negative, elementwise(net, "SUM", indices, size), indices).get_output(0)
    return net.network.add_gather(tensor, counted, axis).get_output(0)


def _slice(net: NetworkBuilder, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    tensor = net.tensor(inputs[0])
    rank = len(tensor.shape)
    starts, ends = (_array(v, "a bound") for v in inputs[1:3])
    axes = _axes(inputs[3], rank) if len(inputs) > 3 and inputs[3] is not None and not _is_tensor(inputs[3]) else list(range(len(starts)))
    if len(inputs) > 3 and _is_tensor(inputs[3]):
        raise Unlowered("axes are computed at run time")
    steps = _array(inputs[4], "a step") if len(inputs) > 4 and inputs[4] is not None else np.ones(len(starts), np.int64)
    begin, stride, size = [0] * rank, [1] * rank, [int(d) for d in tensor.shape]
    for axis, first, last, step in zip(axes, starts.tolist(), ends.tolist(), steps.tolist()):
        if tensor.shape[axis] < 0:
            raise Unlowered(f"dim {axis} of what is sliced is dynamic")
        covered = range(*slice(first, last if not (step < 0 and last < -tensor.shape[axis]) else None, step).indices(tensor.shape[axis]))
        begin[axis], stride[axis], size[axis] = (covered.start if covered else 0), step, len(covered)
    layer = net.network.add_slice(tensor, begin, [max(s, 0) for s in size], stride)
    if any(s < 0 for s in size):
        parts = [net.constant(np.array([s], np.int64)) if s >= 0 else unsqueeze(net, dim(net, tensor, k), [0]) for k, s in enumerate(size)]
        layer.set_input(2, concatenate(net, parts, 0))
    return layer.get_output(0)


def first_rows(net: NetworkBuilder, tensor: Any, count: Any) -> Any:
    """Give the first ``count`` slices along axis 0; ``count`` is a 0-D int64 tensor."""
    rank = len(tensor.shape)
    parts = [unsqueeze(net, count, [0]), *(unsqueeze(net, dim(net, tensor, k), [0]) for k in range(1, rank))]
    layer = net.network.add_slice(tensor, [0] * rank, [0] * rank, [1] * rank)
    layer.set_input(2, concatenate(net, parts, 0))
    return layer.get_output(0)


def concatenate(net: NetworkBuilder, tensors: list[Any], axis: int) -> Any:
    """Join tensors along an axis."""
    if len(tensors) == 1:
        return tensors[0]
    layer = net.network.add_concatenation(tensors)
    layer.axis = axis
    return layer.get_output(0)


def _concat(net: NetworkBuilder, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    tensors = typed_operands(net, inputs)
    axis = attributes["axis"]
    layer = net.network.add_concatenation(tensors)
    layer.axis = axis + len(tensors[0].shape) if axis < 0 else axis
    return layer.get_output(0)


def _cast_to(net: NetworkBuilder, tensor: Any, wanted: Any) -> Any:
    return tensor if tensor.dtype == wanted else net.network.add_cast(tensor, wanted).get_output(0)


def _cast(net: NetworkBuilder, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    from onnx_gs.trt.network_builder import trt_type

    found = dtypes.find(attributes["to"])
    if found is None or found.name not in {"FLOAT", "FLOAT16", "BFLOAT16", "INT32", "INT64", "BOOL"}:
        raise Unlowered(f"a cast to {found.name.lower() if found else attributes['to']}")
    tensor = net.tensor(inputs[0])
    layer = net.network.add_cast(tensor, trt_type(found.numpy))
    return layer.get_output(0)


def _identity(net: NetworkBuilder, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    return net.network.add_identity(net.tensor(inputs[0])).get_output(0)


def _unsqueeze(net: NetworkBuilder, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    tensor = net.tensor(inputs[0])
    given = _array(inputs[1], "axes") if len(inputs) > 1 else np.asarray(attributes["axes"])
    return unsqueeze(net, tensor, sorted(_axes(given, len(tensor.shape) + given.size)))


def _squeeze(net: NetworkBuilder, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    tensor = net.tensor(inputs[0])
    given = _array(inputs[1], "axes") if len(inputs) > 1 and inputs[1] is not None else attributes.get("axes")
    if given is None:
        raise Unlowered("which dims are squeezed depends on the shape")
    axes = _axes(given, len(tensor.shape))
    return net.network.add_squeeze(tensor, net.constant(np.array(axes, np.int32))).get_output(0)


def _reshape(net: NetworkBuilder, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    shape = tuple(int(d) for d in _array(inputs[1], "the shape").reshape(-1))
    return reshape(net, net.tensor(inputs[0]), shape, copy_zeros=not attributes.get("allowzero", 0))


def _transpose(net: NetworkBuilder, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    tensor = net.tensor(inputs[0])
    layer = net.network.add_shuffle(tensor)
    layer.first_transpose = tuple(attributes.get("perm") or range(len(tensor.shape) - 1, -1, -1))
    return layer.get_output(0)


def _where(net: NetworkBuilder, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    a, b = typed_operands(net, inputs[1:])
    condition, a, b = same_rank(net, inputs[0], a, b)
    return net.network.add_select(condition, a, b).get_output(0)


def _softmax(net: NetworkBuilder, inputs: list[Any], attributes: dict[str, Any]) -> Any:
    tensor = net.tensor(inputs[0])
    axis = attributes.get("axis", -1)
    layer = net.network.add_softmax(tensor)
    layer.axes = 1 << (axis + len(tensor.shape) if axis < 0 else axis)
    return layer.get_output(0)


#: ONNX operator → how it is lowered. Each is called with the builder, the inputs (tensors, arrays for constants, None) and the attributes.
OPERATORS: dict[str, Lowering] = {
    "Add": _binary("SUM"), "Sub": _binary("SUB"), "Mul": _binary("PROD"), "Div": _binary("DIV"), "Max": _binary("MAX"), "Min": _binary("MIN"),
    "Sum": _binary("SUM"), "Pow": _float_binary("POW"), "And": _binary("AND"), "Or": _binary("OR"), "Xor": _binary("XOR"), "Equal": _binary("EQUAL"),
    "Greater": _binary("GREATER"), "Less": _binary("LESS"), "GreaterOrEqual": _or_equal("GREATER"), "LessOrEqual": _or_equal("LESS"),
    "Exp": _unary("EXP"), "Log": _unary("LOG"), "Sqrt": _unary("SQRT"), "Reciprocal": _unary("RECIP"), "Abs": _unary("ABS"), "Neg": _unary("NEG"),
    "Sin": _unary("SIN"), "Cos": _unary("COS"), "Tan": _unary("TAN"), "Sinh": _unary("SINH"), "Cosh": _unary("COSH"), "Asin": _unary("ASIN"),
    "Acos": _unary("ACOS"), "Atan": _unary("ATAN"), "Asinh": _unary("ASINH"), "Acosh": _unary("ACOSH"), "Atanh": _unary("ATANH"),
    "Ceil": _unary("CEIL"), "Floor": _unary("FLOOR"), "Erf": _unary("ERF"), "Not": _unary("NOT"), "Sign": _unary("SIGN"), "Round": _unary("ROUND"),
    "IsNaN": _unary("ISNAN"), "IsInf": _unary("ISINF"),
    "Relu": _activation("RELU"), "Sigmoid": _activation("SIGMOID"), "Tanh": _activation("TANH"),
    "LeakyRelu": _activation("LEAKY_RELU", ("alpha", 0.01)),
    "Elu": _activation("ELU", ("alpha", 1.0)), "Softsign": _activation("SOFTSIGN"), "Softplus": _activation("SOFTPLUS", 1.0, 1.0),
    "HardSigmoid": _activation("HARD_SIGMOID", ("alpha", 0.2), ("beta", 0.5)), "ThresholdedRelu": _activation("THRESHOLDED_RELU", ("alpha", 1.0)),
    "MatMul": _mat_mul, "ReduceSum": _reduce("SUM"), "ReduceProd": _reduce("PROD"), "ReduceMax": _reduce("MAX"), "ReduceMin": _reduce("MIN"),
    "ReduceMean": _reduce("AVG"), "Shape": _shape, "Gather": _gather, "Slice": _slice, "Concat": _concat, "Cast": _cast, "Identity": _identity,
    "Unsqueeze": _unsqueeze, "Squeeze": _squeeze, "Reshape": _reshape, "Transpose": _transpose, "Where": _where, "Softmax": _softmax,
}  # fmt: skip
