"""``If``, ``Loop`` and ``Scan``: what holds inside bodies and after them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx_gs.analysis import dim_expr
from onnx_gs.analysis.shape_functions.operands import as_size
from onnx_gs.analysis.shape_functions.table import handles
from onnx_gs.ir import dtypes

if TYPE_CHECKING:
    from onnx_gs.analysis.dim_expr import Dim
    from onnx_gs.analysis.shape_functions.table import Shape
    from onnx_gs.analysis.shape_values import ShapeFacts
    from onnx_gs.ir.node import Node


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
        if trips == 0 and shape is not None:
            shape = f.unknown(len(shape))  # nothing was computed that has the sizes; ONNX Runtime takes 0 for those that the body does not declare
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
    return as_size(f, count) if forever and starts else f.fresh()


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
