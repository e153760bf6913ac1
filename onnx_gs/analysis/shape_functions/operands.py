"""What shape functions ask of a node: inputs that may be left out, attributes that became inputs, sizes out of contents, broadcasting."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from onnx_gs.analysis import dim_expr
from onnx_gs.analysis.dim_expr import Expr
from onnx_gs.analysis.shape_arithmetic import MAX_ITEMS, Contents

if TYPE_CHECKING:
    from onnx_gs.analysis.dim_expr import Dim
    from onnx_gs.analysis.shape_arithmetic import Item
    from onnx_gs.analysis.shape_functions.table import Shape
    from onnx_gs.analysis.shape_values import ShapeFacts
    from onnx_gs.ir.node import Node
    from onnx_gs.ir.tensor import Tensor

#: Ends from here on mean "to the end".
FAR = 2**31 - 1


def static(shape: Shape | None) -> tuple[int, ...] | None:
    """Give a shape all of whose dims are numbers, else None."""
    return tuple(d for d in shape if isinstance(d, int)) if shape is not None and all(isinstance(d, int) for d in shape) else None


def given(node: Node, at: int) -> Tensor | None:
    """Give an input that is not left out."""
    inputs = node._inputs
    return inputs[at] if at < len(inputs) and inputs[at]._name else None


def produced(node: Node, at: int) -> Tensor | None:
    """Give an output that is not left out."""
    outputs = node._outputs
    return outputs[at] if at < len(outputs) and outputs[at]._name else None


def integers_of(f: ShapeFacts, node: Node, attribute: str, at: int) -> list[int] | None:
    """Give integers that older opsets have as an attribute and newer ones as an input; None where they are left out.

    Raises:
        ValueError: they are not known.
    """
    if attribute in node.attrs:
        return [int(v) for v in node.attrs[attribute]]
    t = given(node, at)
    if t is None:
        return None
    found = f.integers(t)
    if found is None:
        raise ValueError(attribute)
    return list(found)


def as_size(f: ShapeFacts, item: Item) -> Dim:
    """Give an element of a shape tensor as a dim; an unknown one where it may be negative."""
    if type(item) is int and item >= 0:
        return item
    if isinstance(item, Expr):
        return item if dim_expr.is_at_least(item, 0) else f.fresh()
    return f.fresh()


def target_of(f: ShapeFacts, t: Tensor) -> Shape | None:
    """Read a shape out of a tensor that holds one; unknown elements become unknown sizes."""
    known = f.contents(t)
    if known is not None:
        return tuple(as_size(f, i) for i in known.items)
    outer = f.shape(t)
    if outer is not None and len(outer) == 1 and isinstance(outer[0], int):
        return f.unknown(outer[0])
    return None


def blank(shape: Shape | None) -> Contents | None:
    """Give contents of which nothing but the count is known."""
    known = static(shape)
    return None if known is None or (count := math.prod(known)) > MAX_ITEMS else Contents(known, (None,) * count)


def contents_as(shape: Shape, held: Contents | None) -> Contents | None:
    """Give contents another shape of as many elements."""
    known = static(shape)
    return Contents(known, held.items) if held is not None and known is not None else None


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
