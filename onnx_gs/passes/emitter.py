"""Typed nodes for rewrites: made by operator, with dtype and shape as far as is known, spelled as the model's opset wants them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.errors import GraphError
from onnx_gs.ir import Constant, Node, Tensor, Variable, dtypes
from onnx_gs.ir.shapes import broadcast, is_static_dim

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.ir.dtypes import DataType
    from onnx_gs.ir.names import Names

_AXES_AS_INPUT = {"Squeeze": 13, "Unsqueeze": 13, "ReduceSum": 13}
_OTHER_REDUCE_AXES_AS_INPUT = 18


class Emitter:
    """Nodes under construction for one place of a model.

    Args:
        names: gives fresh names.
        opset: version of ONNX's own operators in the model: where ``axes`` stand, for example.
        wish: what new tensors are named after.

    Example:
        >>> from onnx_gs.ir import Graph, Variable
        >>> from onnx_gs.ir.names import Names
        >>> x = Variable("x", np.float32, (2, 3))
        >>> emit = Emitter(Names(Graph(inputs=[x])), opset=18, wish="row")
        >>> emit.unsqueeze(x, [0])
        Variable (row_unsqueeze): (shape=[1, 2, 3], dtype=float32)
        >>> [n.op for n in emit.nodes]
        ['Unsqueeze']
    """

    def __init__(self, names: Names, opset: int, wish: str = "") -> None:
        """Start with no nodes."""
        self.names = names
        self.opset = opset
        self.wish = wish
        self.nodes: list[Node] = []

    # -- tensors ----------------------------------------------------------------------------------

    def constant(self, values: Any, dtype: Any = None, wish: str = "") -> Constant:
        """Make a weight of an array, or of numbers; ints are int64 and floats float32 unless ``dtype`` says otherwise."""
        if isinstance(dtype, dtypes.DataType):
            dtype = dtype.numpy
        array = values if isinstance(values, np.ndarray) else np.asarray(values)
        if dtype is not None:
            array = array.astype(dtype)
        elif not isinstance(values, (np.ndarray, np.generic)):
            array = array.astype({"f": np.float32, "i": np.int64}.get(array.dtype.kind, array.dtype))
        return Constant(self.names.fresh(wish or f"{self.wish or 'value'}_const"), array)

    def op(
        self, op: str, *inputs: Tensor | None, dtype: Any = None, shape: Any = None, out: str = "", domain: str | None = None, **attrs: Any
    ) -> Variable:
        """Add a node with one output.

        Args:
            op: the operator.
            inputs: what it reads; None for an omitted optional input.
            dtype: element type of the output, if known.
            shape: dims of the output, if known.
            out: the output's name, taken as a wish.
            domain: the operator's domain.
            attrs: attributes.
        """
        return self.ops(op, inputs, [(dtype, shape)], out=out, domain=domain, **attrs)[0]

    def ops(
        self, op: str, inputs: Sequence[Tensor | None], types: Sequence[tuple[Any, Any]], *, out: str = "", domain: str | None = None, **attrs: Any
    ) -> list[Variable]:
        """Add a node with an output for each dtype and shape in ``types``; see ``op``."""
        base = out or f"{self.wish}_{op.lower()}".lstrip("_")
        outputs = [Variable(self.names.fresh(base), _public(dtype), shape) for dtype, shape in types]
        given = [t if t is not None else Variable.empty() for t in inputs]
        while given and given[-1].is_empty():
            given.pop()
        self.nodes.append(Node(op, self.names.fresh(f"{base}_node"), attrs=attrs, inputs=given, outputs=outputs, domain=domain))
        return outputs

    # -- operators, typed -------------------------------------------------------------------------

    def identity(self, x: Tensor, out: str = "") -> Variable:
        """``Identity``."""
        made = self.op("Identity", x, dtype=x.dtype, shape=_dims(x), out=out)
        if isinstance(x, Variable) and x.type != "tensor_type":
            made.value_type = x.value_type
        return made

    def elementwise(self, op: str, *inputs: Tensor, dtype: Any = None, **attrs: Any) -> Variable:
        """Add an operator that broadcasts; the output has the first input's dtype unless one is given."""
        shape: Any = _dims(inputs[0])
        for t in inputs[1:]:
            other = _dims(t)
            try:
                shape = broadcast(shape, other) if shape is not None and other is not None else None
            except GraphError:
                shape = None
        return self.op(op, *inputs, dtype=inputs[0].dtype if dtype is None else dtype, shape=shape, **attrs)

    def cast(self, x: Tensor, to: DataType) -> Tensor:
        """``Cast``; nothing where the tensor has the type already."""
        if dtypes.of(x) is to:
            return x
        return self.op("Cast", x, dtype=to, shape=_dims(x), to=to.number)

    def shape_of(self, x: Tensor) -> Variable:
        """``Shape``: int64 ``[rank]``."""
        return self.op("Shape", x, dtype=np.int64, shape=[len(x.shape)] if x.shape is not None else None)

    def dim(self, x: Tensor, axis: int) -> Tensor:
        """Size of one axis as an int64 scalar: a constant where it is known, else ``Gather(Shape(x), axis)``."""
        if x.shape is not None and is_static_dim(x.shape[axis]):
            return self.constant(np.int64(x.shape[axis]))
        return self.op("Gather", self.shape_of(x), self.constant(np.int64(axis)), dtype=np.int64, shape=[], axis=0)

    def unsqueeze(self, x: Tensor, axes: Sequence[int]) -> Variable:
        """``Unsqueeze`` at axes of the result."""
        shape = None
        if x.shape is not None:
            rank = len(x.shape) + len(axes)
            at = {a % rank for a in axes}
            rest = iter(x.shape)
            shape = [1 if k in at else next(rest) for k in range(rank)]
        return self._with_axes("Unsqueeze", x, axes, shape)

    def squeeze(self, x: Tensor, axes: Sequence[int]) -> Variable:
        """``Squeeze`` of the given axes."""
        shape = None
        if x.shape is not None:
            gone = {a % len(x.shape) for a in axes}
            shape = [d for k, d in enumerate(x.shape) if k not in gone]
        return self._with_axes("Squeeze", x, axes, shape)

    def reduce(self, op: str, x: Tensor, axes: Sequence[int] | None, *, keepdims: bool) -> Variable:
        """Add a ``Reduce…`` over the given axes, over all where ``axes`` is None."""
        shape: Any = None
        if axes is None:
            shape = [1] * len(x.shape) if keepdims and x.shape is not None else None if keepdims else []
        elif x.shape is not None:
            gone = {a % len(x.shape) for a in axes}
            shape = [1 if k in gone else d for k, d in enumerate(x.shape) if keepdims or k not in gone]
        return self._with_axes(op, x, axes, shape, keepdims=int(keepdims))

    def _with_axes(self, op: str, x: Tensor, axes: Sequence[int] | None, shape: Any, **attrs: Any) -> Variable:
        if axes is None:
            return self.op(op, x, dtype=x.dtype, shape=shape, **attrs)
        if self.opset >= _AXES_AS_INPUT.get(op, _OTHER_REDUCE_AXES_AS_INPUT):
            return self.op(op, x, self.constant(np.asarray(axes, np.int64)), dtype=x.dtype, shape=shape, **attrs)
        return self.op(op, x, dtype=x.dtype, shape=shape, axes=[int(a) for a in axes], **attrs)

    def gather(self, x: Tensor, index: Tensor, axis: int = 0) -> Variable:
        """``Gather`` along an axis."""
        shape = None
        if x.shape is not None and index.shape is not None:
            a = axis % len(x.shape)
            shape = [*x.shape[:a], *index.shape, *x.shape[a + 1 :]]
        return self.op("Gather", x, index, dtype=x.dtype, shape=shape, axis=axis)

    def slice(self, x: Tensor, start: Tensor | int, end: Tensor | int, axis: int, step: int = 1) -> Variable:
        """``Slice`` of one axis; bounds are numbers, or int64 tensors ``[1]``."""
        shape: Any = None
        if x.shape is not None:
            shape = list(x.shape)
            known = is_static_dim(shape[axis]) and isinstance(start, int) and isinstance(end, int)
            shape[axis] = len(range(int(shape[axis]))[start:end:step]) if known else None
        if self.opset < 10:
            if not (isinstance(start, int) and isinstance(end, int) and step == 1):
                raise GraphError(f"a slice with computed bounds or steps needs opset 10, not {self.opset}", fix="convert the model to a later opset")
            return self.op("Slice", x, dtype=x.dtype, shape=shape, starts=[start], ends=[end], axes=[axis])
        bounds = [self.constant(np.asarray([b], np.int64)) if isinstance(b, int) else b for b in (start, end)]
        last = [self.constant(np.asarray([step], np.int64))] if step != 1 else []
        return self.op("Slice", x, *bounds, self.constant(np.asarray([axis], np.int64)), *last, dtype=x.dtype, shape=shape)

    def reverse(self, x: Tensor, axis: int) -> Variable:
        """Turn an axis around."""
        made = self.slice(x, -1, int(np.iinfo(np.int64).min) + 1, axis, -1)
        made.shape = _dims(x)
        return made

    def concat(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """``Concat``; the tensor itself where there is one."""
        if len(parts) == 1:
            return parts[0]
        shape: Any = None
        if all(t.shape is not None and len(t.shape) == len(parts[0].shape) for t in parts):
            a = axis % len(parts[0].shape)
            shape = [next((t.shape[k] for t in parts if is_static_dim(t.shape[k])), parts[0].shape[k]) for k in range(len(parts[0].shape))]
            sizes = [t.shape[a] for t in parts]
            shape[a] = sum(sizes) if all(is_static_dim(d) for d in sizes) else None
        return self.op("Concat", *parts, dtype=next((t.dtype for t in parts if t.dtype is not None), None), shape=shape, axis=axis)

    def transpose(self, x: Tensor, perm: Sequence[int]) -> Tensor:
        """``Transpose``; nothing where the axes stay."""
        if list(perm) == list(range(len(perm))):
            return x
        return self.op("Transpose", x, dtype=x.dtype, shape=[x.shape[k] for k in perm] if x.shape is not None else None, perm=list(perm))

    def reshape(self, x: Tensor, shape: Tensor | Sequence[int], result: Any = None) -> Variable:
        """``Reshape`` to a shape tensor or to numbers, with ``0`` and ``-1`` as ONNX reads them."""
        target = shape if isinstance(shape, Tensor) else self.constant(np.asarray(shape, np.int64))
        if result is None and not isinstance(shape, Tensor) and all(d > 0 for d in shape):
            result = list(shape)
        return self.op("Reshape", x, target, dtype=x.dtype, shape=result)

    def split(self, x: Tensor, sizes: Sequence[int] | Tensor, axis: int, count: int) -> list[Variable]:
        """``Split`` into ``count`` parts of the given sizes."""
        types: list[tuple[Any, Any]] = []
        for k in range(count):
            shape = _dims(x)
            if shape is not None:
                shape[axis] = int(sizes[k]) if not isinstance(sizes, Tensor) else None
            types.append((x.dtype, shape))
        if self.opset < 13 and not isinstance(sizes, Tensor):
            return self.ops("Split", [x], types, axis=axis, split=[int(s) for s in sizes])
        given = sizes if isinstance(sizes, Tensor) else self.constant(np.asarray(sizes, np.int64))
        return self.ops("Split", [x, given], types, axis=axis)


def _public(dtype: Any) -> Any:
    return dtype.public if isinstance(dtype, dtypes.DataType) else dtype


def _dims(x: Tensor) -> Any:
    return None if x.shape is None else list(x.shape)
