"""Shape arithmetic that is static after all, from the shapes that tensors are known to have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnx_gs.analysis import constness
from onnx_gs.analysis.shape_functions import taken
from onnx_gs.ir import dtypes, walk
from onnx_gs.ir.shapes import is_static, is_static_dim
from onnx_gs.ir.tensor import Constant
from onnx_gs.passes.base import Pass, Report

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from onnx_gs.ir import Graph, Node, Tensor

Array = np.ndarray[Any, Any]
Dims = list["int | None"]
#: Shapes have few dims; longer vectors are not shapes.
_MOST = 64


class KnownDims:
    """What vectors of dims hold, element by element, as far as shapes and constants say it.

    Nodes are visited in order. An element that depends on a dim that is not known is ``None``; the rest is known all the same.

    Args:
        constant: gives the array of a tensor that is known by other means, else None.
        disbelieved: tensors, by id, whose declared shapes are not right.
    """

    def __init__(self, constant: Callable[[Tensor], Array | None], disbelieved: Container[int] = ()) -> None:
        """Start with nothing known."""
        self._constant = constant
        self._disbelieved = disbelieved
        self._known: dict[int, tuple[Dims, bool, np.dtype[Any]]] = {}  # elements, whether it is a scalar, dtype

    def visit(self, node: Node, opset: int) -> Array | None:
        """Note what a node's output holds, and give it where all of it is known.

        Returns:
            The value of the first output, or None.
        """
        rule = _RULES.get(node.op)
        if rule is None or not node.is_onnx or len(node._outputs) != 1 or not node._inputs:
            return None
        try:
            found = rule(self, node, opset)
        except (ValueError, TypeError, IndexError):
            return None
        if found is None:
            return None
        if isinstance(found, np.ndarray):
            return found
        dims, is_scalar, dtype = found
        if len(dims) > _MOST:
            return None
        if None in dims:
            self._known[id(node._outputs[0])] = found
            return None
        array = np.array(dims, dtype)
        return array.reshape(()) if is_scalar else array

    def of(self, tensor: Tensor) -> tuple[Dims, bool, np.dtype[Any]] | None:
        """Give the elements of a vector or scalar of integers, whether it is a scalar, and its dtype."""
        known = self._known.get(id(tensor))
        if known is not None:
            return known
        values = self._constant(tensor)
        if values is None or values.ndim > 1 or values.size > _MOST or values.dtype.kind != "i":
            return None
        return [int(v) for v in values.reshape(-1)], values.ndim == 0, values.dtype


def _shape(known: KnownDims, node: Node, opset: int) -> Any:
    tensor = node._inputs[0]
    if getattr(tensor, "type", "tensor_type") != "tensor_type" or tensor.shape is None or id(tensor) in known._disbelieved:
        return None
    dims = [int(d) if is_static_dim(d) else None for d in tensor.shape]
    start, end = node.attrs.get("start", 0), node.attrs.get("end")
    if not isinstance(start, int) or not (end is None or isinstance(end, int)):
        return None
    return dims[slice(start, end)], False, np.dtype(np.int64)


def _size(known: KnownDims, node: Node, opset: int) -> Any:
    tensor = node._inputs[0]
    if getattr(tensor, "type", "tensor_type") != "tensor_type" or not is_static(tensor.shape) or id(tensor) in known._disbelieved:
        return None
    return np.array(math.prod(int(d) for d in tensor.shape), np.int64)


def _gather(known: KnownDims, node: Node, opset: int) -> Any:
    found = known.of(node._inputs[0])
    at = None if found is None else known._constant(node._inputs[1])
    if found is None or at is None or found[1] or node.attrs.get("axis", 0) not in {0, -1} or at.size > _MOST:
        return None
    dims, _, dtype = found
    if any(not -len(dims) <= int(k) < len(dims) for k in at.reshape(-1)):
        return None
    picked = [dims[int(k)] for k in at.reshape(-1)]
    if at.ndim > 1:
        return None if None in picked else np.array(picked, dtype).reshape(at.shape)
    return picked, at.ndim == 0, dtype


def _slice(known: KnownDims, node: Node, opset: int) -> Any:
    found = known.of(node._inputs[0])
    if found is None or found[1]:
        return None
    if len(node._inputs) == 1:
        starts, ends, axes = (node.attrs.get(name) for name in ("starts", "ends", "axes"))
        steps = None
    else:
        starts, ends, axes, steps = (_ints(known, t) for t in [*node._inputs[1:], *[None] * 3][:4])
    if starts is None or ends is None or len(starts) != 1 or len(ends) != 1:
        return None
    if len(node._inputs) > 3 and node._inputs[3].name and axes is None:
        return None
    if len(node._inputs) > 4 and node._inputs[4].name and steps is None:
        return None
    if axes is not None and list(axes) not in ([0], [-1]):
        return None
    step = 1 if steps is None else int(steps[0])
    indices = taken(int(starts[0]), int(ends[0]), step, len(found[0])) if step != 0 else None
    return None if indices is None else ([found[0][k] for k in indices], False, found[2])


def _ints(known: KnownDims, tensor: Tensor | None) -> list[int] | None:
    if tensor is None or not tensor._name:
        return None
    values = known._constant(tensor)
    return None if values is None or values.size > _MOST else [int(v) for v in values.reshape(-1)]


def _same(known: KnownDims, node: Node, opset: int) -> Any:
    found = known.of(node._inputs[0])
    if found is None:
        return None
    if node.op == "Identity":
        return found
    to = dtypes.find(node.attrs.get("to"))
    if to not in {dtypes.INT32, dtypes.INT64} or any(d is not None and not -(1 << 31) <= d < 1 << 31 for d in found[0]):
        return None
    return found[0], found[1], to.numpy


def _unsqueeze(known: KnownDims, node: Node, opset: int) -> Any:
    found = known.of(node._inputs[0])
    if found is None or not found[1]:
        return None
    axes = _ints(known, node._inputs[1]) if opset >= 13 and len(node._inputs) > 1 else node.attrs.get("axes")
    if axes is None or list(axes) not in ([0], [-1]):
        return None
    return found[0], False, found[2]


def _squeeze(known: KnownDims, node: Node, opset: int) -> Any:
    found = known.of(node._inputs[0])
    if found is None or found[1] or len(found[0]) != 1:
        return None
    given = len(node._inputs) > 1 and node._inputs[1]._name
    axes = node.attrs.get("axes", []) if opset < 13 else _ints(known, node._inputs[1]) if given else []
    if given and not axes:
        return None  # not known, or none, about which runtimes disagree
    if list(axes or ()) not in ([0], [-1], []):
        return None
    return found[0], True, found[2]


def _concat(known: KnownDims, node: Node, opset: int) -> Any:
    parts = [known.of(t) for t in node._inputs]
    if any(p is None or p[1] for p in parts) or node.attrs.get("axis", 0) not in {0, -1}:
        return None
    if len({p[2] for p in parts if p is not None}) != 1:
        return None
    return [d for p in parts if p is not None for d in p[0]], False, parts[0][2]  # type: ignore[index]


_RULES: dict[str, Any] = {
    "Shape": _shape, "Size": _size, "Gather": _gather, "Slice": _slice, "Identity": _same, "Cast": _same, "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze, "Concat": _concat,
}  # fmt: skip


@dataclass(frozen=True)
class FoldShapes(Pass):
    """Replace shape arithmetic whose result the known shapes decide by weights.

    Matches:   ``Shape`` (with ``start`` and ``end``) and ``Size`` of what has static dims, and ``Gather``, ``Slice``, ``Concat``, ``Squeeze``,
               ``Unsqueeze``, ``Cast`` of such vectors where the dims that they pick are static, even if others are not.
    Rewrites:  the output becomes a weight; the node stays without outputs until a cleanup.
    Declines:  dims that are symbolic or unknown.
    """

    name: ClassVar[str] = "fold-shapes"

    def run(self, graph: Graph, report: Report) -> None:
        """Fold, in bodies and functions too."""
        for owner, opset in ((g, root.opset) for root in (graph, *graph.functions) for g in walk.graphs(root)):
            known = KnownDims(lambda t: constness.array(t, 1 << 12))
            for node in owner.nodes:
                value = known.visit(node, opset)
                if value is None or isinstance(node._outputs[0], Constant) or not node._outputs[0]._name:
                    continue
                report.rewrote(owner, node, f"is {value.tolist()}")
                output = node._outputs[0]
                node._outputs.clear()
                output.to_constant(value)
