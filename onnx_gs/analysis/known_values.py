"""Small values that can be computed on the spot: counters, conditions and sizes, exactly as a runtime computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_gs.analysis import constness
from onnx_gs.ir import Constant, dtypes
from onnx_gs.ir.shapes import is_static, is_static_dim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from onnx_gs.ir import Graph, Node, Tensor

Array = np.ndarray[Any, Any]
_MOST_ELEMENTS = 4096
_MOST_NODES = 2000


class KnownValues:
    """What small tensors hold, as far as constants and static dims decide it.

    Unknown is a value too: ``And`` with a known false is false whatever the other operand is, and an ``If`` on an unknown condition is known
    where both branches agree. Integer arithmetic wraps, integer division truncates, one float operation is one IEEE operation: the same bits
    as a runtime gives. Whatever is not in the table here is unknown.

    Example:
        >>> from onnx_gs.ir import Node, Variable
        >>> k, t = Constant("k", np.array(3)), Variable("t")
        >>> _ = Node("Add", inputs=[k, k], outputs=[t])
        >>> int(KnownValues().of(t))
        6
    """

    def __init__(self) -> None:
        """Start with nothing known; what is found is kept, so make a new one after edits."""
        self._found: dict[int, Array | None] = {}
        self._kept: list[Tensor] = []

    def of(self, tensor: Tensor) -> Array | None:
        """Give what a tensor of an enclosing scope holds, or None where that is unknown; its producers are evaluated as needed."""
        if isinstance(tensor, Constant):
            return small(tensor)
        if id(tensor) in self._found:
            return self._found[id(tensor)]
        order = _cone(tensor, self._found)
        for node in order:
            for t, value in zip(node.outputs, _run(node, lambda t: small(t) if isinstance(t, Constant) else self._found.get(id(t)), self)):
                self._found[id(t)] = value
                self._kept.append(t)
        self._kept.append(tensor)
        return self._found.setdefault(id(tensor), None)

    def scalar(self, tensor: Tensor) -> Any:
        """Give the one element that a tensor holds as a Python number, or None."""
        value = self.of(tensor)
        return value.reshape(-1)[0].item() if value is not None and value.size == 1 else None

    def evaluate(self, nodes: Iterable[Node], values: dict[int, Array | None]) -> None:
        """Evaluate nodes in order into ``values``, by tensor id; what they capture is looked up outside."""

        def look(t: Tensor) -> Array | None:
            if id(t) in values:
                return values[id(t)]
            return self.of(t)

        for node in nodes:
            for t, value in zip(node.outputs, _run(node, look, self)):
                values[id(t)] = value


def small(tensor: Constant) -> Array | None:
    """Give the values of a constant, or None where there are many of them: those are no counters, and stay unread."""
    known = dtypes.of(tensor)
    if known is None or known.kind == "string" or not is_static(tensor.shape) or int(np.prod(tensor.shape, dtype=np.int64)) > _MOST_ELEMENTS:
        return None
    return np.asarray(tensor.values) if tensor.export_dtype == tensor.dtype else None


def supported(node: Node) -> bool:
    """Say whether a node may have a known value at all."""
    return node.is_onnx and (node.op in _TABLE or node.op in {"If", "Shape", "Size", "Gather", "Slice", "Squeeze", "Constant"})


def _cone(tensor: Tensor, found: dict[int, Array | None]) -> list[Node]:
    """List the nodes that a tensor depends on, in order, through supported operators; nothing where there are too many."""
    order: list[Node] = []
    state: dict[int, int] = {}
    stack = [(p, False) for p in tensor.inputs]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
            continue
        if id(node) in state or not supported(node):
            continue
        state[id(node)] = 1
        if len(state) > _MOST_NODES:
            return []
        stack.append((node, True))
        if node.op in {"Shape", "Size"} or (node.op in {"Gather", "Slice"} and _shape_part(node, None) is not None):
            continue
        stack.extend((p, False) for t in node.inputs if id(t) not in found for p in t.inputs)
    return order


Look = Any


def _run(node: Node, look: Look, outside: KnownValues | None) -> list[Array | None]:
    unknown: list[Array | None] = [None] * len(node.outputs)
    if not supported(node):
        return unknown
    try:
        if node.op == "If":
            return _if(node, look, outside)
        if node.op == "Constant":
            held = constness.array(node.outputs[0], _MOST_ELEMENTS * 8)
            return [held if held is None or (held.size <= _MOST_ELEMENTS and held.dtype != object) else None]
        if node.op in {"Shape", "Size", "Gather", "Slice", "Squeeze"}:
            part = _shape_part(node, look)
            if part is not None:
                return [part]
            if node.op in {"Shape", "Size"}:
                return unknown
        values = [look(t) if t.name else None for t in node.inputs]
        with np.errstate(all="ignore"):
            value = _TABLE[node.op](node, values)
    except (ValueError, IndexError, TypeError, OverflowError, KeyError, ZeroDivisionError):  # the node would fail at run time, or is unusual
        return unknown
    if value is None or value.size > _MOST_ELEMENTS:
        return unknown
    return [np.asarray(value), *unknown[1:]]


def _if(node: Node, look: Look, outside: KnownValues | None) -> list[Array | None]:
    cond = look(node.inputs[0])
    if outside is None:
        return [None] * len(node.outputs)
    results: list[list[Array | None]] = []
    for name in ("then_branch", "else_branch"):
        branch: Graph = node.attrs[name]
        if cond is not None and bool(cond.reshape(-1)[0]) is not (name == "then_branch"):
            continue
        inner: dict[int, Array | None] = {}

        def seen(t: Tensor, inner: dict[int, Array | None] = inner) -> Array | None:
            return inner[id(t)] if id(t) in inner else look(t)

        for each in branch.nodes:
            for t, value in zip(each.outputs, _run(each, seen, outside)):
                inner[id(t)] = value
        results.append([small(t) if isinstance(t, Constant) else seen(t) for t in branch.outputs])
    if len(results) == 1:
        return results[0]
    return [a if a is not None and b is not None and _equal(a, b) else None for a, b in zip(*results)]


def _equal(a: Array, b: Array) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def _shape_part(node: Node, look: Look) -> Array | None:
    """Give dims that are static: of ``Shape`` and ``Size``, and of a pick from a ``Shape`` whose other dims are not."""
    if node.op == "Size":
        shape = node.inputs[0].shape
        return np.array(np.prod(shape, dtype=np.int64)) if is_static(shape) else None
    if node.op == "Shape":
        dims = shape_dims(node)
        return np.array(dims, np.int64).reshape(-1) if dims is not None and is_static(dims) else None
    producer = node.inputs[0].inputs[0] if node.inputs and node.inputs[0].inputs else None
    if node.op != "Gather" or producer is None or producer.op != "Shape" or not producer.is_onnx:
        return None
    dims = shape_dims(producer)
    index: Array | None = None
    if isinstance(node.inputs[1], Constant):
        index = small(node.inputs[1])
    elif look is not None:
        index = look(node.inputs[1])
    if dims is None or index is None or node.attrs.get("axis", 0) not in {0, -1}:
        return None
    picked = [dims[int(k)] if -len(dims) <= int(k) < len(dims) else None for k in index.reshape(-1)]
    if not all(is_static_dim(d) for d in picked):
        return None
    found: Array = np.array(picked, np.int64).reshape(index.shape)
    return found


def shape_dims(node: Node) -> list[Any] | None:
    """Give the dims that a ``Shape`` node lists, static or not; None where the rank is unknown."""
    shape = node.inputs[0].shape
    if shape is None:
        return None
    return list(shape)[node.attrs.get("start", 0) : node.attrs.get("end", len(shape))]


# -- the table: operator -> value of its first output; a value that is None is unknown ------------------------------------------------------------


def _known(function: Callable[..., Any]) -> Callable[[Node, list[Array | None]], Any]:
    """Make an entry whose inputs must all be known."""

    def entry(node: Node, values: list[Array | None]) -> Any:
        return None if any(v is None for v in values) else function(node, *values)

    return entry


def _arith(ufunc: Any) -> Callable[[Node, list[Array | None]], Any]:
    return _known(lambda _, a, b: ufunc(a, b) if a.dtype == b.dtype else None)


def _div(_: Node, a: Array, b: Array) -> Array | None:
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    if not (b != 0).all() or a.dtype.kind not in "iu":
        return None
    quotient = np.floor_divide(a, b)
    return np.asarray(np.where((np.remainder(a, b) != 0) & ((a < 0) != (b < 0)), quotient + 1, quotient).astype(a.dtype))


def _mod(node: Node, a: Array, b: Array) -> Array | None:
    if a.dtype.kind not in "iu" or not (b != 0).all():
        return None
    return np.asarray(np.fmod(a, b) if node.attrs.get("fmod", 0) else np.mod(a, b))


def _and(_: Node, values: list[Array | None]) -> Array | None:
    a, b = values
    if a is not None and b is not None:
        return np.logical_and(a, b)
    one = a if a is not None else b
    return one if one is not None and one.size == 1 and not one.reshape(-1)[0] and one.ndim == 0 else None


def _or(_: Node, values: list[Array | None]) -> Array | None:
    a, b = values
    if a is not None and b is not None:
        return np.logical_or(a, b)
    one = a if a is not None else b
    return one if one is not None and one.size == 1 and one.reshape(-1)[0] and one.ndim == 0 else None


def _where(_: Node, values: list[Array | None]) -> Array | None:
    cond, a, b = values
    if cond is not None and cond.ndim == 0:
        return a if cond else b
    if cond is None or a is None or b is None:
        return None
    return np.where(cond, a, b)


def _cast(node: Node, x: Array) -> Array | None:
    target = dtypes.find(node.attrs["to"])
    if target is None or target.kind not in {"int", "uint", "bool", "float"} or x.dtype.kind not in "iubf":
        return None
    if target.kind in {"int", "uint"} and x.dtype.kind == "f":
        limits = np.iinfo(target.numpy)
        if not np.isfinite(x).all() or (x <= float(limits.min) / 2).any() or (x >= float(limits.max) / 2).any():
            return None
    if target.kind == "float" and target.numpy not in {np.dtype(np.float32), np.dtype(np.float64)}:
        return None
    return x.astype(target.numpy)


def _axes(node: Node, given: Array | None) -> list[int] | None:
    axes = node.attrs.get("axes") if given is None else given.reshape(-1).tolist()
    return None if axes is None else [int(a) for a in axes]


def _unsqueeze(node: Node, values: list[Array | None]) -> Array | None:
    if values[0] is None or (len(values) > 1 and values[1] is None):
        return None
    axes = _axes(node, values[1] if len(values) > 1 else None) or []
    return np.expand_dims(values[0], tuple(axes))


def _squeeze(node: Node, values: list[Array | None]) -> Array | None:
    if values[0] is None or (len(values) > 1 and node.inputs[1].name and values[1] is None):
        return None
    axes = _axes(node, values[1] if len(values) > 1 else None)
    if axes is not None and not axes:
        return None  # runtimes disagree: all axes, or none
    return np.squeeze(values[0], None if axes is None else tuple(axes))


def _reshape(node: Node, x: Array, target: Array) -> Array | None:
    dims = [int(d) for d in target.reshape(-1)]
    if not node.attrs.get("allowzero", 0):
        dims = [x.shape[k] if d == 0 else d for k, d in enumerate(dims)]
    return x.reshape(dims)


def _gather(node: Node, x: Array, index: Array) -> Array | None:
    axis = node.attrs.get("axis", 0)
    if index.size and (index.min() < -x.shape[axis] or index.max() >= x.shape[axis]):
        return None
    return np.take(x, index, axis=axis)


def _slice(node: Node, values: list[Array | None]) -> Array | None:
    if len(values) < 3 or any(v is None and t.name for v, t in zip(values, node.inputs)) or values[0] is None:
        return None
    x, starts, ends = values[0], values[1], values[2]
    axes = values[3].tolist() if len(values) > 3 and values[3] is not None else range(len(starts))  # type: ignore[arg-type]
    steps = values[4].tolist() if len(values) > 4 and values[4] is not None else [1] * len(starts)  # type: ignore[arg-type]
    cut: list[slice] = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts.tolist(), ends.tolist(), axes, steps):  # type: ignore[union-attr]
        if step <= 0:
            return None
        cut[axis] = slice(start, end, step)
    return x[tuple(cut)]


def _concat(node: Node, *values: Array) -> Array | None:
    return np.concatenate(values, axis=node.attrs["axis"]) if len({v.dtype for v in values}) == 1 else None


def _extreme(pick: Any) -> Callable[[Node, list[Array | None]], Any]:
    def entry(_: Node, *values: Array) -> Array | None:
        if values[0].dtype.kind not in "iu":
            return None
        found = values[0]
        for v in values[1:]:
            found = pick(found, v)
        return found

    return _known(entry)


def _reduce(function: Any) -> Callable[[Node, list[Array | None]], Any]:
    def entry(node: Node, values: list[Array | None]) -> Any:
        x = values[0]
        if x is None or x.dtype.kind not in "iu" or (len(values) > 1 and values[1] is None):
            return None
        axes = _axes(node, values[1] if len(values) > 1 else None)
        if not axes and node.attrs.get("noop_with_empty_axes", 0):
            return x
        return np.asarray(function(x, axis=tuple(axes) if axes else None, keepdims=bool(node.attrs.get("keepdims", 1)), dtype=x.dtype))

    return entry


def _reduce_extreme(function: Any) -> Callable[[Node, list[Array | None]], Any]:
    reduce = _reduce(lambda x, axis, keepdims, dtype: function(x, axis=axis, keepdims=keepdims).astype(dtype))
    return lambda node, values: None if values[0] is None or values[0].size == 0 else reduce(node, values)


def _float_only(function: Any) -> Callable[[Node, list[Array | None]], Any]:
    return _known(lambda _, x: function(x) if x.dtype in {np.dtype(np.float32), np.dtype(np.float64)} else None)


_TABLE: dict[str, Callable[[Node, list[Array | None]], Any]] = {
    "Identity": _known(lambda _, x: x),
    "Cast": _known(_cast),
    "Add": _arith(np.add), "Sub": _arith(np.subtract), "Mul": _arith(np.multiply), "Div": _known(_div), "Mod": _known(_mod),
    "Neg": _known(lambda _, x: -x), "Abs": _known(lambda _, x: np.abs(x)), "Floor": _float_only(np.floor), "Ceil": _float_only(np.ceil),
    "Min": _extreme(np.minimum), "Max": _extreme(np.maximum),
    "Equal": _arith(np.equal), "Less": _arith(np.less), "LessOrEqual": _arith(np.less_equal), "Greater": _arith(np.greater),
    "GreaterOrEqual": _arith(np.greater_equal), "Xor": _arith(np.logical_xor), "Not": _known(lambda _, x: np.logical_not(x)), "And": _and, "Or": _or,
    "Where": _where, "Unsqueeze": _unsqueeze, "Squeeze": _squeeze, "Reshape": _known(_reshape), "Gather": _known(_gather), "Slice": _slice,
    "Concat": _known(_concat), "ReduceSum": _reduce(np.sum), "ReduceProd": _reduce(np.prod), "ReduceMax": _reduce_extreme(np.max),
    "ReduceMin": _reduce_extreme(np.min),
}  # fmt: skip


