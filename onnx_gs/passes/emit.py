"""New nodes for rewrites, in the form that the model's opset wants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.ir import Constant, Node, Variable, dtypes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onnx_gs.ir import Graph, Tensor
    from onnx_gs.ir.names import Names


class Emit:
    """Collects new nodes in order; each call gives the output of the node that it adds.

    Args:
        opset: version of ONNX's own operators in the model.
        names: gives fresh names.
        like: names of the new tensors start with this.
    """

    def __init__(self, opset: int, names: Names, like: str) -> None:
        """Start without nodes."""
        self.opset = opset
        self.names = names
        self.like = like
        self.nodes: list[Node] = []

    def constant(self, values: Any, dtype: Any = np.int64) -> Constant:
        """Make a weight."""
        return Constant(self.names.fresh(f"{self.like}_const"), np.asarray(values, dtype))

    def op(
        self, op: str, *inputs: Tensor | None, dtype: Any = None, shape: Sequence[Any] | None = None, name: str = "", **attrs: Any
    ) -> Variable:
        """Add a node of one output."""
        made = Variable(self.names.fresh(name or f"{self.like}_{op.lower()}"), dtype, None if shape is None else list(shape))
        given = [Variable.empty() if t is None else t for t in inputs]
        self.nodes.append(Node(op, self.names.fresh(f"{made.name}_node"), attrs, given, [made]))
        return made

    def identity(self, x: Tensor) -> Variable:
        """Give the same value under another name."""
        return self.op("Identity", x, dtype=x.dtype, shape=x.shape)

    def unsqueeze(self, x: Tensor, axes: Sequence[int]) -> Variable:
        """Insert dims of 1; ``axes`` in the result, in order, at least 0."""
        shape = None
        if x.shape is not None:
            shape = list(x.shape)
            for a in sorted(axes):
                shape.insert(a, 1)
        if self.opset < 13:
            return self.op("Unsqueeze", x, dtype=x.dtype, shape=shape, axes=list(axes))
        return self.op("Unsqueeze", x, self.constant(list(axes)), dtype=x.dtype, shape=shape)

    def squeeze(self, x: Tensor, axes: Sequence[int]) -> Variable:
        """Drop dims of 1; ``axes`` at least 0."""
        shape = None if x.shape is None else [d for k, d in enumerate(x.shape) if k not in axes]
        if self.opset < 13:
            return self.op("Squeeze", x, dtype=x.dtype, shape=shape, axes=list(axes))
        return self.op("Squeeze", x, self.constant(list(axes)), dtype=x.dtype, shape=shape)

    def concat(self, parts: Sequence[Tensor], axis: int) -> Tensor:
        """Join tensors; one alone is itself."""
        if len(parts) == 1:
            return parts[0]
        shape = None
        first = parts[0].shape
        if first is not None and all(p.shape is not None and len(p.shape) == len(first) for p in parts):
            shape = list(first)
            lengths = [p.shape[axis] for p in parts]
            shape[axis] = sum(lengths) if all(isinstance(d, (int, np.integer)) for d in lengths) else None
        return self.op("Concat", *parts, dtype=first_dtype(parts), shape=shape, axis=axis)

    def gather(self, x: Tensor, index: Tensor, axis: int) -> Variable:
        """Pick along an axis."""
        shape = None
        if x.shape is not None and index.shape is not None:
            shape = [*list(x.shape)[:axis], *index.shape, *list(x.shape)[axis + 1 :]]
        return self.op("Gather", x, index, dtype=x.dtype, shape=shape, axis=axis)

    def slice(self, x: Tensor, start: Tensor, end: Tensor, axis: int, length: Any = None) -> Variable:
        """Cut a range out of one axis; needs opset 10."""
        shape = None
        if x.shape is not None:
            shape = list(x.shape)
            shape[axis] = length
        return self.op("Slice", x, start, end, self.constant([axis]), dtype=x.dtype, shape=shape)

    def reverse(self, x: Tensor, axis: int) -> Variable:
        """Turn an axis around; needs opset 10."""
        low = np.iinfo(np.int64).min
        return self.op("Slice", x, self.constant([-1]), self.constant([low]), self.constant([axis]), self.constant([-1]), dtype=x.dtype, shape=x.shape)

    def transpose(self, x: Tensor, perm: Sequence[int]) -> Tensor:
        """Permute dims; the identity permutation adds nothing."""
        if list(perm) == list(range(len(perm))):
            return x
        shape = None if x.shape is None else [x.shape[p] for p in perm]
        return self.op("Transpose", x, dtype=x.dtype, shape=shape, perm=list(perm))

    def shape_of(self, x: Tensor) -> Variable:
        """Give the dims as a tensor."""
        return self.op("Shape", x, dtype=np.int64, shape=None if x.shape is None else [len(x.shape)])

    def dim(self, x: Tensor, axis: int) -> Variable:
        """Give one dim as a tensor of one element."""
        return self.gather(self.shape_of(x), self.constant([axis]), 0)

    def vector(self, x: Tensor) -> Variable:
        """Give a tensor of one element the shape ``[1]``."""
        return self.op("Reshape", x, self.constant([1]), dtype=x.dtype, shape=[1])

    def scalar(self, x: Tensor) -> Variable:
        """Give a tensor of one element the shape ``[]``."""
        return self.op("Reshape", x, self.constant(np.zeros(0, np.int64)), dtype=x.dtype, shape=[])

    def add(self, a: Tensor, b: Tensor) -> Variable:
        """Add two tensors of which one broadcasts to the other's shape."""
        wider = a if b.shape is not None and len(b.shape) == 0 else b if a.shape is not None and len(a.shape) == 0 else None
        return self.op("Add", a, b, dtype=a.dtype, shape=wider.shape if wider is not None else None)


def first_dtype(tensors: Sequence[Tensor]) -> Any:
    """Give the first known element type."""
    return next((t.dtype for t in tensors if t.dtype is not None), None)


def body_like(graph: Graph, name: str, nodes: Sequence[Node], inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Graph:
    """Make a body for a node of a model: of its class, opset and functions."""
    kind = type(graph) if not hasattr(graph, "unique_id") else next(k for k in type(graph).__mro__[1:] if not hasattr(k, "unique_id"))
    made: Graph = kind(list(nodes), list(inputs), list(outputs), name=name, opset=graph.opset, import_domains=graph.import_domains)
    made._functions = graph._functions
    made.ir_version = graph.ir_version
    made.model = graph.model
    return made


def same_type(tensor: Tensor, name: str) -> Variable:
    """Make a variable of another tensor's type."""
    made = Variable(name, tensor.dtype, tensor.shape)
    if isinstance(tensor, Variable) and tensor.type != "tensor_type":
        made.value_type = tensor.value_type
    return made


def static_zero_rows(row: Tensor) -> np.ndarray[Any, Any] | None:
    """Give what a scan output holds after no trip: no rows, of the row's static dims; None where they are not known.

    ONNX Runtime gives unknown dims the size 0 here, which no rewrite should rely on.
    """
    known = dtypes.of(row)
    if known is None or row.shape is None or any(not isinstance(d, (int, np.integer)) or d < 0 for d in row.shape) or known.kind == "string":
        return None
    return np.zeros((0, *(int(d) for d in row.shape)), known.numpy)
