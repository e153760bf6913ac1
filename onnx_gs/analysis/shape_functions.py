"""How the operators of ONNX shape their outputs, and what shape arithmetic computes: one function an operator or family.

Each function tells ``ShapeFacts`` what it knows of a node's outputs, and nothing where it knows nothing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.analysis import dim_expr, shape_arithmetic
from onnx_gs.analysis.dim_expr import Dim, Expr, ceildiv, floordiv, maximum, minimum, product
from onnx_gs.analysis.shape_arithmetic import MAX_ITEMS, Contents, Item, grid, ungrid
from onnx_gs.ir import dtypes
from onnx_gs.ir.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnx_gs.analysis.shape_values import ShapeFacts
    from onnx_gs.ir.dtypes import DataType
    from onnx_gs.ir.node import Node

Shape = tuple[Dim, ...]
ShapeFunction = Any  # Callable[[ShapeFacts, Node], None]

#: By operator, or by domain and operator for those of other domains.
FUNCTIONS: dict[Any, ShapeFunction] = {}
#: Operators whose functions read constants of floats, which are no part of the facts about a tensor.
READ_FLOATS = frozenset({"Cast", "CastLike", "Resize", "Upsample"})


#: Functions that give a single output the type and shape of the first input, whatever else the node has.
HAND_ON: set[ShapeFunction] = set()
#: How many inputs a function looks at, the first ones; those that are not here may look at all.
LOOKS_AT: dict[ShapeFunction, int] = {}
#: Functions that look at no attribute, so that those need not be decoded.
WITHOUT_ATTRIBUTES: set[ShapeFunction] = set()


def handles(
    *ops: str, domain: str | None = None, looks_at: int | None = None, attributes: bool = True, hands_on: bool = False
) -> Callable[[ShapeFunction], ShapeFunction]:
    """Enter a function into the table, for these operators.

    Args:
        ops: the operators.
        domain: theirs; None for ONNX's own.
        looks_at: how many inputs the function looks at, the first ones; None for all.
        attributes: whether it looks at attributes.
        hands_on: whether a single output gets type and shape of the first input, whatever else the node has.
    """

    def enter(function: ShapeFunction) -> ShapeFunction:
        for op in ops:
            FUNCTIONS[op if domain is None else (domain, op)] = function
        if looks_at is not None:
            LOOKS_AT[function] = looks_at
        if not attributes:
            WITHOUT_ATTRIBUTES.add(function)
        if hands_on:
            HAND_ON.add(function)
        return function

    return enter


_FAR = 2**31 - 1  # ends from here on mean "to the end"


def static(shape: Shape | None) -> tuple[int, ...] | None:
    """Give a shape all of whose dims are numbers, else None."""
    return tuple(d for d in shape if isinstance(d, int)) if shape is not None and all(isinstance(d, int) for d in shape) else None


def _given(node: Node, at: int) -> Tensor | None:
    """Give an input that is not left out."""
    inputs = node._inputs
    return inputs[at] if at < len(inputs) and inputs[at]._name else None


def _output(node: Node, at: int) -> Tensor | None:
    outputs = node._outputs
    return outputs[at] if at < len(outputs) and outputs[at]._name else None


def _ints(f: ShapeFacts, node: Node, attribute: str, at: int) -> list[int] | None:
    """Give integers that older opsets have as an attribute and newer ones as an input; None where they are left out.

    Raises:
        ValueError: they are not known.
    """
    if attribute in node.attrs:
        return [int(v) for v in node.attrs[attribute]]
    t = _given(node, at)
    if t is None:
        return None
    found = f.integers(t)
    if found is None:
        raise ValueError(attribute)
    return list(found)


def broadcast_dims(f: ShapeFacts, x: Dim, y: Dim) -> Dim:
    """Give the dim that two dims broadcast to, in a model that runs."""
    if x == y:
        return x
    if isinstance(x, int):
        return y if x == 1 else x
    if isinstance(y, int):
        return x if y == 1 else y
    for a, b in ((x, y), (y, x)):  # a against min(a, c): they are equal, or the model does not run
        m = next(iter(b.terms))
        if len(b.terms) == 1 and len(m) == 1 and not isinstance(m[0], str) and m[0].op == "min" and a in {m[0].a, m[0].b}:
            return a
    return f.fresh()


def broadcast(f: ShapeFacts, a: Shape | None, b: Shape | None) -> Shape | None:
    """Broadcast two shapes; None where a rank is not known."""
    if a is None or b is None:
        return None
    if a == b or not b:
        return a
    if not a:
        return b
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    return tuple(broadcast_dims(f, x, y) for x, y in zip(a, b))


# -- element by element -----------------------------------------------------------------------------


@handles(
    "Relu", "LeakyRelu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Elu", "Selu", "Celu", "Softplus", "Softsign", "ThresholdedRelu", "Mish",
    "Gelu", "Swish", "Exp", "Log", "Sqrt", "Reciprocal", "Floor", "Ceil", "Round", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh",
    "Asinh", "Acosh", "Atanh", "Erf", "Softmax", "LogSoftmax", "Hardmax", "LRN", "LpNormalization", "MeanVarianceNormalization",
    "InstanceNormalization",
    "GroupNormalization", "RMSNormalization", "CumSum", "Trilu", "Shrink", "BitwiseNot", "ScatterND", "ScatterElements", "Scatter", "TensorScatter",
    "Clip", "ReverseSequence", "RotaryEmbedding", "ImageScaler", hands_on=True,
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
        if floats is not None and shape is not None and all(v.is_integer() and abs(v) < _FAR for v in floats):
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
        first, second = first or _blank(x), second or _blank(y)
        if first is not None and second is not None and dtype is not None and dtype.kind != "float":
            contents = shape_arithmetic.binary(node.op, first, second, dtype)
    f.tell(node._outputs[0], dtype, x if x == y else broadcast(f, x, y), contents)


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
    if mask := _output(node, 1):
        f.tell(mask, dtypes.BOOL if f.opset >= 10 else f.dtype(x), f.shape(x))


@handles("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")
def _quantize(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    if node.op == "DynamicQuantizeLinear":
        for t, each in zip(node._outputs, (dtypes.UINT8, dtypes.FLOAT, dtypes.UINT8)):
            f.tell(t, each, f.shape(x) if t is node._outputs[0] else ())
        return
    zero = _given(node, 2)
    dtype: DataType | None
    if node.op == "DequantizeLinear":
        dtype = dtypes.find(node.attrs.get("output_dtype") or None) or f.dtype(node._inputs[1])
    else:
        dtype = f.dtype(zero) if zero is not None else dtypes.find(node.attrs.get("output_dtype") or None) or dtypes.UINT8
    f.tell(node._outputs[0], dtype, f.shape(x))


# -- shapes as values -------------------------------------------------------------------------------


@handles("Shape")
def _shape(f: ShapeFacts, node: Node) -> None:
    dims = f.shape(node._inputs[0])
    if dims is None:
        f.tell(node._outputs[0], dtypes.INT64, (f.fresh(),))
        return
    attrs = node.attrs
    rank = len(dims)
    start, end = int(attrs.get("start", 0)), int(attrs.get("end", rank))
    dims = dims[max(start + rank, 0) if start < 0 else start : max(end + rank, 0) if end < 0 else end] if attrs else dims
    f.tell(node._outputs[0], dtypes.INT64, (len(dims),), Contents((len(dims),), dims))


@handles("Size", attributes=False)
def _size(f: ShapeFacts, node: Node) -> None:
    dims = f.shape(node._inputs[0])
    f.tell(node._outputs[0], dtypes.INT64, (), Contents((), (product(dims),)) if dims is not None else None)


@handles("Constant")
def _constant(f: ShapeFacts, node: Node) -> None:
    ((key, value),) = node.attrs.items()
    t = node._outputs[0]
    if key == "value" and isinstance(value, Tensor):
        f.tell(t, dtypes.of(value), tuple(value.shape), f.contents(value))
        return
    if key in {"value_int", "value_ints"}:
        items = tuple(value) if key == "value_ints" else (int(value),)
        shape: tuple[int, ...] = (len(items),) if key == "value_ints" else ()
        f.tell(t, dtypes.INT64, shape, Contents(shape, items))
    elif key in {"value_float", "value_floats"}:
        f.tell(t, dtypes.FLOAT, (len(value),) if key == "value_floats" else ())


@handles("ConstantOfShape")
def _constant_of_shape(f: ShapeFacts, node: Node) -> None:
    dims = _target(f, node._inputs[0])
    value = node.attrs.get("value")
    dtype = dtypes.FLOAT if value is None else dtypes.of(value)
    contents = None
    known = static(dims)
    if known is not None and math.prod(known) <= MAX_ITEMS:
        fill: Any = 0.0 if value is None else np.asarray(value.values).ravel()[0].item()
        contents = Contents(known, (fill,) * math.prod(known)) if type(fill) in {int, bool, float} else None
    f.tell(node._outputs[0], dtype, dims, contents)


def _target(f: ShapeFacts, t: Tensor) -> Shape | None:
    """Read a shape out of a tensor that holds one; unknown elements become unknown sizes."""
    known = f.contents(t)
    if known is not None:
        return tuple(_as_size(f, i) for i in known.items)
    outer = f.shape(t)
    if outer is not None and len(outer) == 1 and isinstance(outer[0], int):
        return f.unknown(outer[0])
    return None


def _as_size(f: ShapeFacts, item: Item) -> Dim:
    if type(item) is int and item >= 0:
        return item
    if isinstance(item, Expr):
        return item if dim_expr.is_at_least(item, 0) else f.fresh()
    return f.fresh()


@handles("Reshape")
def _reshape(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    before = f.shape(x)
    if len(node._inputs) > 1:
        target, held = node._inputs[1], f.contents(node._inputs[1])
        if held is None:
            outer = f.shape(target)
            f.tell(node._outputs[0], f.dtype(x), f.unknown(outer[0]) if outer and len(outer) == 1 and isinstance(outer[0], int) else None)
            return
        items: tuple[Item, ...] = held.items
    else:
        items = tuple(int(v) for v in node.attrs["shape"])
    f.tell(node._outputs[0], f.dtype(x), reshaped(f, before, items, bool(node.attrs.get("allowzero", 0))), _moved(f, x, before, items))


def _moved(f: ShapeFacts, x: Tensor, before: Shape | None, items: tuple[Item, ...]) -> Contents | None:
    held = f.contents(x)
    if held is None or any(type(i) is not int for i in items):
        return None
    shape = static(reshaped(f, held.shape, items, False))
    return None if shape is None or math.prod(shape) != len(held.items) else Contents(shape, held.items)


def reshaped(f: ShapeFacts, before: Shape | None, items: tuple[Item, ...], allowzero: bool) -> Shape | None:
    """Give the shape that ``Reshape`` makes of ``before``."""
    out: list[Dim | None] = []
    inferred = None
    for i, item in enumerate(items):
        if type(item) is int and item == -1:
            inferred = i
            out.append(None)
        elif type(item) is int and item == 0 and not allowzero:
            out.append(before[i] if before is not None and i < len(before) else f.fresh())
        else:
            out.append(_as_size(f, item))
    if inferred is not None:
        rest = product([d for d in out if d is not None])
        unknown = not isinstance(rest, int) and any(n.startswith("?") for n in dim_expr.names_in(rest))
        if before is None or (unknown and dim_expr.exact_quotient(product(before), rest) is None):
            out[inferred] = f.fresh()
        else:
            total = product(before)
            out[inferred] = floordiv(total, rest) if rest != 0 else f.fresh()
    elif before is not None and len(unsure := [i for i, d in enumerate(out) if not isinstance(d, int) and _is_fresh(items[i], d)]) == 1:
        # the element count decides the one dim that is not known
        whole = dim_expr.exact_quotient(product(before), product([d for i, d in enumerate(out) if i != unsure[0]]))  # type: ignore[misc]
        if whole is not None:
            out[unsure[0]] = whole
    return tuple(out)  # type: ignore[arg-type]


def _is_fresh(item: Item, dim: Dim | None) -> bool:
    return item is None or (isinstance(item, Expr) and item != dim)


def _as(shape: Shape, held: Contents | None) -> Contents | None:
    """Give contents another shape of as many elements."""
    known = static(shape)
    return Contents(known, held.items) if held is not None and known is not None else None


@handles("Flatten")
def _flatten(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    if dims is None:
        f.tell(node._outputs[0], f.dtype(x), f.unknown(2))
        return
    axis = int(node.attrs.get("axis", 1))
    axis = axis + len(dims) if axis < 0 else axis
    shape = (product(dims[:axis]), product(dims[axis:]))
    held, known = f.contents(x), static(shape)
    f.tell(node._outputs[0], f.dtype(x), shape, Contents(known, held.items) if held and known is not None else None)


@handles("Squeeze")
def _squeeze(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    axes = _ints(f, node, "axes", 1)
    held = f.contents(x)
    if dims is None:
        return f.tell(node._outputs[0], f.dtype(x), None)
    if axes is None:
        if any(isinstance(d, Expr) for d in dims):
            return f.tell(node._outputs[0], f.dtype(x), None)
        gone = {i for i, d in enumerate(dims) if d == 1}
    elif not axes:
        return f.tell(node._outputs[0], f.dtype(x), None)  # ONNX Runtime takes an empty list as all axes, the specification does not say so
    else:
        gone = {a % len(dims) for a in axes}
    shape = tuple(d for i, d in enumerate(dims) if i not in gone)
    return f.tell(node._outputs[0], f.dtype(x), shape, _as(shape, held))


@handles("Unsqueeze")
def _unsqueeze(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims, held = f.shape(x), f.contents(x)
    axes = _ints(f, node, "axes", 1)
    if dims is None or axes is None:
        return f.tell(node._outputs[0], f.dtype(x), None)
    rank = len(dims) + len(axes)
    new = {a % rank for a in axes}
    rest = iter(dims)
    shape = tuple(1 if i in new else next(rest) for i in range(rank))
    return f.tell(node._outputs[0], f.dtype(x), shape, _as(shape, held))


@handles("Concat")
def _concat(f: ShapeFacts, node: Node) -> None:
    shapes = [f.shape(t) for t in node._inputs]
    dtype = next((d for t in node._inputs if (d := f.dtype(t)) is not None), None)
    known = next((s for s in shapes if s is not None), None)
    if known is None:
        return f.tell(node._outputs[0], dtype, None)
    rank = len(known)
    axis = int(node.attrs.get("axis", 1)) % rank
    total: Dim = 0
    out: list[Dim] = list(known)
    for s in shapes:
        if s is None:
            total = f.fresh()
            break
        total = total + s[axis]
        for i, size in enumerate(s):
            if isinstance(out[i], Expr) and isinstance(size, int):
                out[i] = size
    out[axis] = total
    contents = None
    if dtype is not None and dtype.kind in {"int", "uint", "bool"}:
        parts = [f.contents(t) or _blank(s) for t, s in zip(node._inputs, shapes)]
        if all(p is not None for p in parts) and any(i is not None for p in parts for i in p.items):  # type: ignore[union-attr]
            if rank == 1:
                items = tuple(i for p in parts for i in p.items)  # type: ignore[union-attr]
                contents = Contents((len(items),), items)
            else:
                contents = ungrid(np.concatenate([grid(p) for p in parts], axis=axis))  # type: ignore[arg-type]
    return f.tell(node._outputs[0], dtype, tuple(out), contents)


def _blank(shape: Shape | None) -> Contents | None:
    """Give contents of which nothing but the count is known."""
    known = static(shape)
    return None if known is None or (count := math.prod(known)) > MAX_ITEMS else Contents(known, (None,) * count)


@handles("Split")
def _split(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims, dtype, held = f.shape(x), f.dtype(x), f.contents(x)
    count = len(node._outputs)
    if dims is None:
        for t in node._outputs:
            f.tell(t, dtype, None)
        return
    axis = int(node.attrs.get("axis", 0)) % len(dims)
    try:
        sizes: list[Dim] | None = _ints(f, node, "split", 1)  # type: ignore[assignment]
    except ValueError:
        sizes = [f.fresh() for _ in range(count)]
    if sizes is None:
        total = dims[axis]
        if count == 1:
            sizes = [total]
        else:
            each = ceildiv(total, count) if "num_outputs" in node.attrs else floordiv(total, count)
            sizes = [each] * (count - 1) + [total - each * (count - 1)]
            if isinstance(total, Expr) and not dim_expr.is_at_least(sizes[-1], 0):
                sizes = [each if dim_expr.exact_quotient(total, count) is not None else f.fresh() for _ in range(count)]
    start = 0
    for t, size in zip(node._outputs, sizes):
        shape = (*dims[:axis], size, *dims[axis + 1 :])
        contents = None
        if held is not None and isinstance(size, int) and isinstance(start, int):
            contents = ungrid(np.take(grid(held), range(start, start + size), axis=axis))
        start = start + size  # type: ignore[assignment]
        f.tell(t, dtype, shape, contents)


@handles("SplitToSequence")
def _split_to_sequence(f: ShapeFacts, node: Node) -> None:
    x, out = node._inputs[0], node._outputs[0]
    dims, split = f.shape(x), _given(node, 1)
    f.only_here()
    f.tell(out, None, None)
    if dims is None or not dims:
        return
    axis = int(node.attrs.get("axis", 0)) % len(dims)
    size: tuple[Dim | None, ...] = (1,) if node.attrs.get("keepdims", 1) else ()
    if split is not None:
        held, total = f.contents(split), dims[axis]
        found = None
        if held is not None and held.items and type(held.items[0]) is int and all(i == held.items[0] for i in held.items):
            found = held.items[0]  # all alike; a single number cuts a rest off where it does not divide the axis
            if held.shape == () and (found <= 0 or not isinstance(total, int) or total % found):
                found = None
        size = (found,)
    f.elements[id(out)] = (f.dtype(x), (*dims[:axis], *size, *dims[axis + 1 :]))


@handles("SequenceAt", attributes=False)
def _sequence_at(f: ShapeFacts, node: Node) -> None:
    f.only_here()
    found = f.elements.get(id(node._inputs[0]))
    if found is not None:
        dtype, dims = found
        f.tell(node._outputs[0], dtype, tuple(f.fresh() if d is None else d for d in dims))


def clamped(item: Item, dim: Dim) -> Dim | None:
    """Give where a start or end of ``Slice`` with step 1 falls on an axis, between 0 and the dim; None where that is not known."""
    if item is None or isinstance(item, float):
        return None
    if type(item) is int:
        if item >= _FAR:
            return dim
        if item < 0:
            return maximum(dim + item, 0)
        return minimum(item, dim)
    if dim_expr.is_at_least(item, 0):
        return minimum(item, dim)
    if dim_expr.is_at_least(-1, item):
        return maximum(dim + item, 0)
    return None


def taken(start: int, end: int, step: int, dim: int) -> range | None:
    """Give the indices that ``Slice`` takes on an axis; None where runtimes and specification disagree.

    Backwards, a start before the axis is its first element, unlike in Python; and ends that mean "to the end" forwards, which ONNX Runtime takes as
    "to the start" then.

    Example:
        >>> taken(-2, 100, 1, 5), list(taken(4, -100, -2, 5)), list(taken(-100, -101, -1, 5)), taken(4, 2**63 - 1, -1, 5)
        (range(3, 5), [4, 2, 0], [0], None)
    """
    if step < 0 and end >= _FAR:
        return None
    lowest, highest = (0, dim) if step > 0 else (-1, dim - 1)
    first = min(max(start + dim if start < 0 else start, 0), highest)
    last = min(max(end + dim if end < 0 else end, lowest), highest)
    return range(first, last, step)


def as_slice(indices: range) -> slice:
    """Give the same indices as a slice of an array; none of them may lie outside it."""
    if not indices:
        return slice(0, 0)
    return slice(indices.start, indices.stop if indices.stop >= 0 else None, indices.step)


def slice_parts(f: ShapeFacts, node: Node) -> tuple[list[Item], list[Item], list[int], list[Item]] | None:
    """Give starts, ends, axes and steps of a ``Slice``, elements None where not known; None where not even the axes are."""
    if "starts" in node.attrs:
        starts, ends = list(node.attrs["starts"]), list(node.attrs["ends"])
        axes = list(node.attrs.get("axes", range(len(starts))))
        return [int(s) for s in starts], [int(e) for e in ends], [int(a) for a in axes], [1] * len(starts)
    counts = [f.shape(t) for t in list(node._inputs)[1:3]]
    count = next((c[0] for c in counts if c is not None and len(c) == 1 and isinstance(c[0], int)), None)
    if count is None:
        return None
    starts, ends = (_items(f, t, count) for t in list(node._inputs)[1:3])
    axes_in, steps_in = _given(node, 3), _given(node, 4)
    if axes_in is not None:
        found = f.integers(axes_in)
        if found is None:
            return None
        axes = list(found)
    else:
        axes = list(range(count))
    return starts, ends, axes, [1] * count if steps_in is None else _items(f, steps_in, count)


def _items(f: ShapeFacts, t: Tensor, count: int) -> list[Item]:
    held = f.contents(t)
    return [None] * count if held is None else list(held.items)


@handles("Slice")
def _slice(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims, held = f.shape(x), f.contents(x)
    parts = slice_parts(f, node)
    if dims is None or parts is None:
        return f.tell(node._outputs[0], f.dtype(x), None if dims is None else f.unknown(len(dims)))
    out = list(dims)
    for start, end, axis, step in zip(*parts):
        out[axis % len(dims)] = _sliced(f, dims[axis % len(dims)], start, end, step)
    contents = None
    if held is not None and all(type(p) is int for group in (parts[0], parts[1], parts[3]) for p in group):
        items = grid(held)
        cuts: list[Any] = [slice(None)] * len(dims)
        for start, end, axis, step in zip(*parts):
            indices = taken(start, end, step, items.shape[axis]) if step != 0 else None  # type: ignore[arg-type]
            if indices is None:
                return f.tell(node._outputs[0], f.dtype(x), tuple(out))
            cuts[axis % len(dims)] = as_slice(indices)
        contents = ungrid(items[tuple(cuts)])
    return f.tell(node._outputs[0], f.dtype(x), tuple(out), contents)


def _sliced(f: ShapeFacts, dim: Dim, start: Item, end: Item, step: Item) -> Dim:
    if type(step) is not int or step == 0:
        return f.fresh()
    if isinstance(dim, int) and type(start) is int and type(end) is int:
        indices = taken(start, end, step, dim)
        return f.fresh() if indices is None else len(indices)
    if step < 0:
        whole = start == -1 or (type(start) is int and start >= _FAR)
        return ceildiv(dim, -step) if whole and type(end) is int and end < -_FAR else f.fresh()
    first, last = clamped(start, dim), clamped(end, dim)
    if last is None and isinstance(end, Expr) and dim_expr.equal(end, dim - 1):
        last = dim - 1 if dim_expr.is_at_least(dim, 1) else None
    if first is None or last is None:
        return f.fresh()
    length = maximum(last - first, 0)
    return length if step == 1 else ceildiv(length, step)


@handles("Gather")
def _gather(f: ShapeFacts, node: Node) -> None:
    x, at = node._inputs
    dims, where = f.shape(x), f.shape(at)
    if dims is None or where is None:
        return f.tell(node._outputs[0], f.dtype(x), None)
    axis = int(node.attrs.get("axis", 0)) % len(dims)
    held, indices = f.contents(x), f.contents(at)
    contents = None
    if held is not None and indices is not None and all(type(i) is int for i in indices.items):
        contents = ungrid(np.asarray(np.take(grid(held), np.array(indices.items, np.int64).reshape(indices.shape), axis=axis), dtype=object))
    return f.tell(node._outputs[0], f.dtype(x), (*dims[:axis], *where, *dims[axis + 1 :]), contents)


@handles("GatherElements", attributes=False)
def _gather_elements(f: ShapeFacts, node: Node) -> None:
    f.tell(node._outputs[0], f.dtype(node._inputs[0]), f.shape(node._inputs[1]))


@handles("GatherND")
def _gather_nd(f: ShapeFacts, node: Node) -> None:
    dims, at = f.shape(node._inputs[0]), f.shape(node._inputs[1])
    batch = int(node.attrs.get("batch_dims", 0))
    known = dims is not None and at is not None and isinstance(at[-1], int)
    f.tell(node._outputs[0], f.dtype(node._inputs[0]), (*at[:-1], *dims[batch + at[-1] :]) if known else None)  # type: ignore[index]


@handles("Expand", attributes=False)
def _expand(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    target = _target(f, node._inputs[1])
    shape = broadcast(f, f.shape(x), target)
    held = f.contents(x)
    contents = None
    known = static(shape)
    if held is not None and known is not None and math.prod(known) <= MAX_ITEMS:
        contents = ungrid(np.broadcast_to(grid(held), known))
    f.tell(node._outputs[0], f.dtype(x), shape, contents)


@handles("Tile", attributes=False)
def _tile(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims, counts = f.shape(x), f.contents(node._inputs[1])
    if dims is None:
        return f.tell(node._outputs[0], f.dtype(x), None)
    repeats: list[Item] = [None] * len(dims) if counts is None else list(counts.items)
    shape = tuple(d * _as_size(f, r) if r is not None else f.fresh() for d, r in zip(dims, repeats))
    held = f.contents(x)
    contents = None
    known = static(shape)
    if held is not None and known is not None and math.prod(known) <= MAX_ITEMS:
        contents = ungrid(np.tile(grid(held), [int(r) for r in repeats]))  # type: ignore[arg-type]
    return f.tell(node._outputs[0], f.dtype(x), shape, contents)


@handles("Transpose")
def _transpose(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims, held = f.shape(x), f.contents(x)
    perm = node.attrs.get("perm")
    if dims is None:
        return f.tell(node._outputs[0], f.dtype(x), f.unknown(len(perm)) if perm else None)
    order = list(perm) if perm else list(range(len(dims)))[::-1]
    contents = ungrid(grid(held).transpose(order)) if held is not None else None
    return f.tell(node._outputs[0], f.dtype(x), tuple(dims[int(p)] for p in order), contents)


@handles("Range", attributes=False)
def _range(f: ShapeFacts, node: Node) -> None:
    start, limit, delta = (f.scalar(t) for t in node._inputs)
    dtype = next((d for t in node._inputs if (d := f.dtype(t)) is not None), None)
    length: Dim | None = None
    contents = None
    if type(delta) is int and delta != 0 and isinstance(start, (int, Expr)) and isinstance(limit, (int, Expr)):
        gap = limit - start if delta > 0 else start - limit
        length = maximum(ceildiv(gap, abs(delta)), 0)
        if type(start) is int and isinstance(length, int) and length <= MAX_ITEMS:
            contents = Contents((length,), tuple(range(start, limit, delta)))  # type: ignore[arg-type]
    f.tell(node._outputs[0], dtype, (f.fresh() if length is None else length,), contents)


# -- reductions -------------------------------------------------------------------------------------


@handles(
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip
def _reduce(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    attrs = node.attrs
    keep = bool(attrs.get("keepdims", 1))
    try:
        axes = _ints(f, node, "axes", 1)
    except ValueError:
        return f.tell(node._outputs[0], f.dtype(x), f.unknown(len(dims)) if dims is not None and keep else None)
    if axes is None or not axes:
        if attrs.get("noop_with_empty_axes", 0):
            return f.tell(node._outputs[0], f.dtype(x), dims)
        axes = None
    if dims is None:
        return f.tell(node._outputs[0], f.dtype(x), () if axes is None and not keep else None)
    chosen = set(range(len(dims))) if axes is None else {a % len(dims) for a in axes}
    shape = tuple(1 if i in chosen else d for i, d in enumerate(dims) if keep or i not in chosen)
    held = f.contents(x)
    return f.tell(node._outputs[0], f.dtype(x), shape, shape_arithmetic.reduce(node.op, held, axes, keep, f.dtype(x)) if held else None)


@handles("ArgMax", "ArgMin")
def _arg(f: ShapeFacts, node: Node) -> None:
    dims = f.shape(node._inputs[0])
    if dims is None:
        return f.tell(node._outputs[0], dtypes.INT64, None)
    axis = int(node.attrs.get("axis", 0)) % len(dims)
    middle = (1,) if node.attrs.get("keepdims", 1) else ()
    return f.tell(node._outputs[0], dtypes.INT64, (*dims[:axis], *middle, *dims[axis + 1 :]))


@handles("TopK")
def _topk(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    k: Any = node.attrs["k"] if "k" in node.attrs else f.scalar(node._inputs[1])
    shape = None
    if dims is not None:
        axis = int(node.attrs.get("axis", -1)) % len(dims)
        shape = (*dims[:axis], _as_size(f, k), *dims[axis + 1 :])
    f.tell(node._outputs[0], f.dtype(x), shape)
    f.tell(node._outputs[1], dtypes.INT64, shape)


@handles("NonZero", attributes=False)
def _nonzero(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    rank = f.rank(x)
    held = f.contents(x)
    if held is not None and held.is_known and held.shape:
        found = np.array(np.nonzero(np.array(held.items).reshape(held.shape)), dtype=object)
        return f.tell(node._outputs[0], dtypes.INT64, found.shape, ungrid(found))
    return f.tell(node._outputs[0], dtypes.INT64, (f.fresh() if rank is None else max(rank, 1), f.fresh()))


@handles("OneHot")
def _one_hot(f: ShapeFacts, node: Node) -> None:
    at = f.shape(node._inputs[0])
    shape = None
    if at is not None:
        axis = int(node.attrs.get("axis", -1)) % (len(at) + 1)
        shape = (*at[:axis], _as_size(f, f.scalar(node._inputs[1])), *at[axis:])
    f.tell(node._outputs[0], f.dtype(node._inputs[2]), shape)


@handles("EyeLike", "RandomNormalLike", "RandomUniformLike", "Bernoulli")
def _like(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    f.tell(node._outputs[0], dtypes.find(node.attrs.get("dtype")) or f.dtype(x), f.shape(x))


@handles("RandomNormal", "RandomUniform")
def _random(f: ShapeFacts, node: Node) -> None:
    f.tell(node._outputs[0], dtypes.find(node.attrs.get("dtype")) or dtypes.FLOAT, tuple(int(d) for d in node.attrs["shape"]))


@handles("NonMaxSuppression", attributes=False)
def _nms(f: ShapeFacts, node: Node) -> None:
    f.tell(node._outputs[0], dtypes.INT64, (f.fresh(), 3))


# -- products ---------------------------------------------------------------------------------------


@handles("MatMul", "MatMulInteger", "QLinearMatMul", attributes=False)
def _matmul(f: ShapeFacts, node: Node) -> None:
    a, b = node._inputs[0], node._inputs[3 if node.op == "QLinearMatMul" else 1]
    dtype = {"MatMulInteger": dtypes.INT32, "QLinearMatMul": f.dtype(node._inputs[-1])}.get(node.op) or f.dtype(a) or f.dtype(b)
    f.tell(node._outputs[0], dtype, _product_shape(f, f.shape(a), f.shape(b)))


def _product_shape(f: ShapeFacts, x: Shape | None, y: Shape | None) -> Shape | None:
    if x is None or y is None:
        return None
    rows = x[-2:-1]
    columns = y[-1:] if len(y) > 1 else ()
    front = broadcast(f, x[:-2], y[:-2])
    return (*front, *rows, *columns) if front is not None else None


@handles("FusedMatMul", domain="com.microsoft")
def _fused_matmul(f: ShapeFacts, node: Node) -> None:
    shapes = []
    for t, flag in zip(node._inputs, ("transA", "transB")):
        s = f.shape(t)
        shapes.append((*s[:-2], s[-1], s[-2]) if s is not None and node.attrs.get(flag) and len(s) > 1 else s)
    f.tell(node._outputs[0], f.dtype(node._inputs[0]), _product_shape(f, *shapes))


@handles("Gemm", looks_at=2)
def _gemm(f: ShapeFacts, node: Node) -> None:
    a, b = node._inputs[:2]
    x, y = f.shape(a), f.shape(b)
    attrs = node.attrs
    rows = x[1 if attrs.get("transA") else 0] if x is not None and len(x) == 2 else f.fresh()
    columns = y[0 if attrs.get("transB") else 1] if y is not None and len(y) == 2 else f.fresh()
    f.tell(node._outputs[0], f.dtype(a), (rows, columns))


@handles("Einsum")
def _einsum(f: ShapeFacts, node: Node) -> None:
    equation = node.attrs["equation"]
    equation = (equation.decode() if isinstance(equation, bytes) else equation).replace(" ", "")
    left, arrow, right = equation.partition("->")
    x = node._inputs[0]
    if "." in equation or not arrow:
        return f.tell(node._outputs[0], f.dtype(x), None)
    sizes: dict[str, Dim] = {}
    for term, t in zip(left.split(","), node._inputs):
        dims = f.shape(t)
        for letter, d in zip(term, dims or ()):
            sizes[letter] = broadcast_dims(f, sizes[letter], d) if letter in sizes else d
    return f.tell(node._outputs[0], f.dtype(x), tuple(sizes[c] if c in sizes else f.fresh() for c in right))


# -- windows ----------------------------------------------------------------------------------------


def _windows(f: ShapeFacts, node: Node, spatial: Shape, kernel: list[int], *, is_pool: bool) -> Shape:
    attrs = node.attrs
    rank = len(spatial)
    strides = [int(s) for s in attrs.get("strides", ())] or [1] * rank
    dilations = [int(s) for s in attrs.get("dilations", ())] or [1] * rank
    pads = [int(p) for p in attrs.get("pads", ())] or [0] * (2 * rank)
    auto = attrs.get("auto_pad", "NOTSET")
    auto = auto.decode() if isinstance(auto, bytes) else auto
    up = bool(attrs.get("ceil_mode", 0)) and is_pool
    out: list[Dim] = []
    for i, d in enumerate(spatial):
        reach = (kernel[i] - 1) * dilations[i] + 1
        if auto in {"SAME_UPPER", "SAME_LOWER"}:
            out.append(ceildiv(d, strides[i]))
            continue
        free = d + (pads[i] + pads[i + rank] - reach if auto != "VALID" else -reach)
        if up:
            size = ceildiv(free, strides[i]) + 1
            if not isinstance(d, int):
                size = f.fresh()  # the last window may start in the padding and then does not count
            elif (size - 1) * strides[i] >= d + pads[i]:  # type: ignore[operator]
                size = size - 1
            out.append(size)
        else:
            out.append(floordiv(free, strides[i]) + 1)
    return tuple(out)


@handles("Conv", "ConvInteger", looks_at=2)
def _conv(f: ShapeFacts, node: Node) -> None:
    x, w = node._inputs[0], node._inputs[1]
    _convolved(f, node, x, w, dtypes.INT32 if node.op == "ConvInteger" else f.dtype(x) or f.dtype(w))


@handles("QLinearConv")
def _qlinear_conv(f: ShapeFacts, node: Node) -> None:
    _convolved(f, node, node._inputs[0], node._inputs[3], f.dtype(node._inputs[7]))


def _convolved(f: ShapeFacts, node: Node, x: Tensor, w: Tensor, dtype: DataType | None) -> None:
    dims, weight = f.shape(x), f.shape(w)
    kernel = [int(k) for k in node.attrs.get("kernel_shape", ())] or list(static(weight[2:]) or () if weight is not None else ())
    if dims is None and weight is not None:
        dims = f.unknown(len(weight))
    if dims is None or any(not isinstance(k, int) for k in kernel) or len(kernel) != len(dims) - 2:
        return f.tell(node._outputs[0], dtype, None if dims is None else f.unknown(len(dims)))
    channels = weight[0] if weight is not None else f.fresh()
    return f.tell(node._outputs[0], dtype, (dims[0], channels, *_windows(f, node, dims[2:], kernel, is_pool=False)))


@handles("ConvTranspose", looks_at=2)
def _conv_transpose(f: ShapeFacts, node: Node) -> None:
    x, w = node._inputs[:2]
    dims, weight = f.shape(x), f.shape(w)
    attrs = node.attrs
    if dims is None or weight is None or not all(isinstance(d, int) for d in weight[1:]):
        return f.tell(node._outputs[0], f.dtype(x), f.unknown(len(dims)) if dims is not None else None)
    rank = len(dims) - 2
    strides = [int(s) for s in attrs.get("strides", ())] or [1] * rank
    dilations = [int(s) for s in attrs.get("dilations", ())] or [1] * rank
    pads = [int(p) for p in attrs.get("pads", ())] or [0] * (2 * rank)
    extra = [int(p) for p in attrs.get("output_padding", ())] or [0] * rank
    kernel = [int(k) for k in attrs.get("kernel_shape", ())] or [int(k) for k in weight[2:]]  # type: ignore[arg-type]
    auto = attrs.get("auto_pad", "NOTSET")
    auto = auto.decode() if isinstance(auto, bytes) else auto
    if "output_shape" in attrs:
        spatial: Shape = tuple(int(d) for d in attrs["output_shape"])[-rank:]
    elif auto in {"SAME_UPPER", "SAME_LOWER"}:
        spatial = tuple(d * s for d, s in zip(dims[2:], strides))
    else:
        around = [0] * rank if auto == "VALID" else [pads[i] + pads[i + rank] for i in range(rank)]
        spatial = tuple(
            (d - 1) * s + e + (k - 1) * dl + 1 - p for d, s, e, k, dl, p in zip(dims[2:], strides, extra, kernel, dilations, around)
        )
    return f.tell(node._outputs[0], f.dtype(x), (dims[0], weight[1] * int(attrs.get("group", 1)), *spatial))


@handles("MaxPool", "AveragePool", "LpPool", looks_at=1)
def _pool(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    shape = None
    if dims is not None:
        shape = (*dims[:2], *_windows(f, node, dims[2:], [int(k) for k in node.attrs["kernel_shape"]], is_pool=True))
    f.tell(node._outputs[0], f.dtype(x), shape)
    if at := _output(node, 1):
        f.tell(at, dtypes.INT64, shape)


@handles("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", attributes=False)
def _global_pool(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    f.tell(node._outputs[0], f.dtype(x), None if dims is None else (*dims[:2], *(1 for _ in dims[2:])))


@handles("BatchNormalization", hands_on=True)
def _batch_norm(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    f.tell(node._outputs[0], f.dtype(x), f.shape(x))
    for t in list(node._outputs)[1:]:
        f.tell(t, f.dtype(node._inputs[3]), f.shape(node._inputs[3]))


@handles("LayerNormalization", hands_on=True)
def _layer_norm(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    f.tell(node._outputs[0], f.dtype(x), dims)
    axis = int(node.attrs.get("axis", -1))
    for t in list(node._outputs)[1:]:
        shape = None if dims is None else (*dims[: axis % len(dims)], *(1 for _ in dims[axis % len(dims) :]))
        f.tell(t, dtypes.find(node.attrs.get("stash_type", 1)), shape)


@handles("SkipLayerNormalization", "SimplifiedLayerNormalization", "SkipSimplifiedLayerNormalization", domain="com.microsoft", hands_on=True)
def _skip_layer_norm(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    f.tell(node._outputs[0], f.dtype(x), f.shape(x))


@handles("Pad")
def _pad(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    if dims is None:
        return f.tell(node._outputs[0], f.dtype(x), None)
    amounts: list[Item]
    if "pads" in node.attrs or "paddings" in node.attrs:
        amounts = list(node.attrs["pads"] if "pads" in node.attrs else node.attrs["paddings"])
    else:
        held = f.contents(node._inputs[1])
        if held is None:
            return f.tell(node._outputs[0], f.dtype(x), f.unknown(len(dims)))
        amounts = list(held.items)
    axes = list(range(len(dims)))
    if (chosen := _given(node, 3)) is not None:
        found = f.integers(chosen)
        if found is None:
            return f.tell(node._outputs[0], f.dtype(x), f.unknown(len(dims)))
        axes = [a % len(dims) for a in found]
    out = list(dims)
    for i, axis in enumerate(axes):
        before, after = amounts[i], amounts[i + len(axes)]
        out[axis] = dims[axis] + before + after if isinstance(before, (int, Expr)) and isinstance(after, (int, Expr)) else f.fresh()
    return f.tell(node._outputs[0], f.dtype(x), tuple(out))


@handles("Resize", "Upsample")
def _resize(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    if dims is None:
        return f.tell(node._outputs[0], f.dtype(x), None)
    attrs = node.attrs
    axes = [int(a) % len(dims) for a in attrs.get("axes", ())] or list(range(len(dims)))
    sizes = _given(node, 3) if node.op == "Resize" else None
    out: list[Dim] = list(dims)
    if sizes is not None:
        policy = attrs.get("keep_aspect_ratio_policy", "stretch")
        held = f.contents(sizes)
        if held is None or (policy.decode() if isinstance(policy, bytes) else policy) != "stretch":
            return f.tell(node._outputs[0], f.dtype(x), f.unknown(len(dims)))
        for axis, item in zip(axes, held.items):
            out[axis] = _as_size(f, item)
        return f.tell(node._outputs[0], f.dtype(x), tuple(out))
    scales: tuple[Item, ...] | None
    if "scales" in attrs:
        scales = tuple(float(s) for s in attrs["scales"])
    else:
        t = _given(node, 2 if node.op == "Resize" and len(node._inputs) > 2 else 1)
        scales = f.floats(t) if t is not None else None
    if scales is None or len(scales) != len(axes):
        return f.tell(node._outputs[0], f.dtype(x), f.unknown(len(dims)))
    for axis, scale in zip(axes, scales):
        d = dims[axis]
        if not isinstance(scale, (int, float)):
            out[axis] = f.fresh()
        elif float(scale).is_integer():
            out[axis] = d * int(scale)
        else:
            out[axis] = math.floor(np.float32(d) * np.float32(scale)) if isinstance(d, int) else f.fresh()
    return f.tell(node._outputs[0], f.dtype(x), tuple(out))


@handles("DepthToSpace", "SpaceToDepth")
def _depth(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    if dims is None:
        return f.tell(node._outputs[0], f.dtype(x), f.unknown(4))
    n, c, h, w = dims
    b = int(node.attrs["blocksize"])
    if node.op == "DepthToSpace":
        return f.tell(node._outputs[0], f.dtype(x), (n, floordiv(c, b * b), h * b, w * b))
    return f.tell(node._outputs[0], f.dtype(x), (n, c * (b * b), floordiv(h, b), floordiv(w, b)))


@handles("RoiAlign", "MaxRoiPool")
def _roi(f: ShapeFacts, node: Node) -> None:
    x, rois = node._inputs[:2]
    dims, boxes = f.shape(x), f.shape(rois)
    if node.op == "MaxRoiPool":
        height, width = (int(v) for v in node.attrs["pooled_shape"])
    else:
        height, width = int(node.attrs.get("output_height", 1)), int(node.attrs.get("output_width", 1))
    f.tell(node._outputs[0], f.dtype(x), (boxes[0] if boxes else f.fresh(), dims[1] if dims else f.fresh(), height, width))


@handles("GridSample", attributes=False)
def _grid_sample(f: ShapeFacts, node: Node) -> None:
    dims, at = f.shape(node._inputs[0]), f.shape(node._inputs[1])
    f.tell(node._outputs[0], f.dtype(node._inputs[0]), (*dims[:2], *at[1:-1]) if dims is not None and at is not None else None)


@handles("LSTM", "GRU", "RNN", looks_at=3)
def _recurrent(f: ShapeFacts, node: Node) -> None:
    x, r = node._inputs[0], node._inputs[2]
    dims, weights = f.shape(x), f.shape(r)
    attrs = node.attrs
    directions: Dim = weights[0] if weights is not None else f.fresh()
    hidden: Dim = int(attrs["hidden_size"]) if "hidden_size" in attrs else weights[2] if weights is not None else f.fresh()
    steps, batch = (dims[0], dims[1]) if dims is not None else (f.fresh(), f.fresh())
    if attrs.get("layout", 0):
        steps, batch = batch, steps
        shapes: list[Shape] = [(batch, steps, directions, hidden), (batch, directions, hidden), (batch, directions, hidden)]
    else:
        shapes = [(steps, directions, batch, hidden), (directions, batch, hidden), (directions, batch, hidden)]
    for t, shape in zip(node._outputs, shapes):
        f.tell(t, f.dtype(x), shape)


@handles("Compress")
def _compress(f: ShapeFacts, node: Node) -> None:
    x = node._inputs[0]
    dims = f.shape(x)
    if "axis" not in node.attrs:
        return f.tell(node._outputs[0], f.dtype(x), (f.fresh(),))
    if dims is None:
        return f.tell(node._outputs[0], f.dtype(x), None)
    axis = int(node.attrs["axis"]) % len(dims)
    return f.tell(node._outputs[0], f.dtype(x), (*dims[:axis], f.fresh(), *dims[axis + 1 :]))


# -- control flow -----------------------------------------------------------------------------------


def _joined(f: ShapeFacts, a: Shape | None, b: Shape | None) -> Shape | None:
    """Give what two possible shapes have in common."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else f.fresh() for x, y in zip(a, b))


@handles("If")
def _if(f: ShapeFacts, node: Node) -> None:
    branches = [node.attrs["then_branch"], node.attrs["else_branch"]]
    for branch in branches:
        f.visit_body(branch, [])
    for t, a, b in zip(node._outputs, *(branch.outputs for branch in branches)):
        if any(getattr(x, "type", "tensor_type") != "tensor_type" for x in (a, b)):
            f.tell(t, None, None)
            continue
        first, second = f.contents(a), f.contents(b)
        same = first is not None and first == second and all(type(i) is type(j) for i, j in zip(first.items, second.items))
        f.tell(t, f.dtype(a) or f.dtype(b), _joined(f, f.shape(a), f.shape(b)), first if same else None)


def _settled(f: ShapeFacts, body: Any, fixed: list[Any], carried: list[Any], rest: list[Any], skip: int) -> list[Any]:
    """Widen the shapes of carried values until a trip through the body keeps them; give those of the body's outputs."""
    widened: list[set[int]] = [set() for _ in carried]  # axes that a trip may change: their size is one name for any trip
    for _ in range(8):
        outputs = f.visit_body(body, [*fixed, *carried, *rest])
        stable = True
        for at, ((dtype, before), (out_dtype, after)) in enumerate(zip(list(carried), outputs[skip : skip + len(carried)])):
            if before is None:
                carried[at] = (dtype or out_dtype, None)
                continue
            if after is None or len(after) != len(before):
                stable, carried[at] = False, (dtype or out_dtype, None)
                continue
            changed = {i for i, (x, y) in enumerate(zip(before, after)) if x != y and i not in widened[at]}
            if changed:
                stable = False
                widened[at] |= changed
                carried[at] = (dtype or out_dtype, tuple(f.fresh() if i in changed else d for i, d in enumerate(before)))
        if stable:
            return outputs
    carried[:] = [(dtype, None) for dtype, _ in carried]
    return f.visit_body(body, [*fixed, *carried, *rest])


def _keep_outer(f: ShapeFacts, shape: Shape | None, outer: set[str]) -> Shape | None:
    """Forget sizes that have a meaning inside a trip only."""
    if shape is None:
        return None
    return tuple(d if isinstance(d, int) or all(not n.startswith("?") or n in outer for n in dim_expr.names_in(d)) else f.fresh() for d in shape)


@handles("Loop")
def _loop(f: ShapeFacts, node: Node) -> None:
    body = node.attrs["body"]
    carried = [(f.dtype(t), f.shape(t)) for t in list(node._inputs)[2:]]
    known = {n for _, s in carried for d in s or () for n in dim_expr.names_in(d)}
    fixed: list[Any] = [(dtypes.INT64, ()), (dtypes.BOOL, ())]
    outputs = _settled(f, body, fixed, carried, [], 1)
    # carried values of unknown size got a name for the trip; outside, only what was there before the loop has a meaning
    count = len(carried)
    trips = _trips(f, node)
    for t, (dtype, shape) in zip(node._outputs, carried):
        f.tell(t, dtype, _keep_outer(f, shape, known))
    for t, (dtype, shape) in zip(list(node._outputs)[count:], outputs[1 + count :]):
        f.tell(t, dtype, None if shape is None else (trips, *(_keep_outer(f, shape, set()) or ())))


def _trips(f: ShapeFacts, node: Node) -> Dim:
    """Give how often a loop runs where its trip count alone decides, else an unknown size."""
    limit, condition = node._inputs[0], node._inputs[1]
    body = node.attrs["body"]
    count = f.scalar(limit) if limit._name else None
    going = body.outputs[0]
    passed = going is body.inputs[1] or (going._inputs and going._inputs[0].op == "Identity" and going._inputs[0]._inputs[0] is body.inputs[1])
    forever = f.scalar(going) is True or passed
    starts = not condition._name or f.scalar(condition) is True
    return _as_size(f, count) if forever and starts else f.fresh()


@handles("Scan")
def _scan(f: ShapeFacts, node: Node) -> None:
    body = node.attrs["body"]
    if f.opset < 9:
        f.tell_inside(body)
        return
    scanned = int(node.attrs["num_scan_inputs"])
    states = len(node._inputs) - scanned
    axes_in = [int(a) for a in node.attrs.get("scan_input_axes", ())] or [0] * scanned
    carried = [(f.dtype(t), f.shape(t)) for t in list(node._inputs)[:states]]
    known = {n for _, s in carried for d in s or () for n in dim_expr.names_in(d)}
    rest: list[Any] = []
    length: Dim | None = None
    for t, axis in zip(list(node._inputs)[states:], axes_in):
        dims = f.shape(t)
        if dims is None:
            rest.append((f.dtype(t), None))
            continue
        at = axis % len(dims)
        length = dims[at] if length is None or isinstance(dims[at], int) else length
        rest.append((f.dtype(t), dims[:at] + dims[at + 1 :]))
        known |= {n for d in dims for n in dim_expr.names_in(d)}
    outputs = _settled(f, body, [], carried, rest, 0)
    for t, (dtype, shape) in zip(node._outputs, carried):
        f.tell(t, dtype, _keep_outer(f, shape, known))
    rows = list(node._outputs)[states:]
    axes_out = [int(a) for a in node.attrs.get("scan_output_axes", ())] or [0] * len(rows)
    for t, axis, (dtype, shape) in zip(rows, axes_out, outputs[states:]):
        kept = _keep_outer(f, shape, known)
        if kept is None:
            f.tell(t, dtype, None)
            continue
        at = axis % (len(kept) + 1)
        f.tell(t, dtype, (*kept[:at], length if length is not None else f.fresh(), *kept[at:]))

