"""Matrix products, attention, and recurrent operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_gs.analysis.dim_expr import floordiv
from onnx_gs.analysis.shape_functions.operands import broadcast, broadcast_dims, given, produced
from onnx_gs.analysis.shape_functions.table import handles
from onnx_gs.ir import dtypes

if TYPE_CHECKING:
    from onnx_gs.analysis.dim_expr import Dim
    from onnx_gs.analysis.shape_functions.table import Shape
    from onnx_gs.analysis.shape_values import ShapeFacts
    from onnx_gs.ir.node import Node


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


@handles("Attention")
def _attention(f: ShapeFacts, node: Node) -> None:
    q, k, v = (_heads(f, node, at, heads) for at, heads in enumerate(("q_num_heads", "kv_num_heads", "kv_num_heads")))
    dtype = f.dtype(node._inputs[0])
    shape: Shape | None = None
    if q is not None and v is not None:
        packed = f.rank(node._inputs[0]) == 3
        shape = (q[0], q[2], q[1] * v[3]) if packed else (*q[:3], v[3])
    f.tell(node._outputs[0], dtype, shape)
    pasts = [f.shape(t) if (t := given(node, at)) is not None else () for at in (4, 5)]
    present: list[Shape | None] = []
    for part, past in zip((k, v), pasts):
        whole = None if part is None or past is None else part if not past else (*part[:2], past[2] + part[2], part[3])
        present.append(whole)
    for at, shape in enumerate(present, 1):
        if (t := produced(node, at)) is not None:
            f.tell(t, f.dtype(node._inputs[at]), shape)
    if (t := produced(node, 3)) is not None:
        f.tell(t, dtype, (*q[:3], present[0][2]) if q is not None and present[0] is not None else None)


def _heads(f: ShapeFacts, node: Node, at: int, heads: str) -> Shape | None:
    """Give an input of attention as batch, heads, length and size of a head; of rank 3 it has the heads side by side."""
    dims = f.shape(node._inputs[at])
    if dims is None or len(dims) == 4:
        return dims
    count = int(node.attrs[heads])
    return (dims[0], count, dims[1], floordiv(dims[2], count))
