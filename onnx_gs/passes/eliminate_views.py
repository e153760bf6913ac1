"""Operators that only say the shape anew, where it is the same, or where two in a row are one: Reshape, Flatten, Squeeze, Unsqueeze."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from onnx_gs.ir.tensor import Constant
from onnx_gs.passes.rewriting import NodePass, Work

if TYPE_CHECKING:
    from onnx_gs.analysis.shape_functions import Shape
    from onnx_gs.ir import Graph, Node
    from onnx_gs.ir.tensor import Tensor

VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")


def reshape_target(before: Shape | None, after: Shape | None) -> list[int] | None:
    """Give the constant target with which ``Reshape`` makes ``after`` of ``before``, with 0 for a dim that stays and at most one -1.

    None where there is no such target.

    Example:
        >>> from onnx_gs.analysis.dim_expr import symbol
        >>> n, m = symbol("n"), symbol("m")
        >>> reshape_target((n, m, 12), (n, m, 3, 4)), reshape_target((n, m), (n * m,)), reshape_target((n, m), (m, n))
        ([0, 0, 3, 4], [-1], None)
    """
    if after is None:
        return None
    target: list[int] = []
    for at, dim in enumerate(after):
        if isinstance(dim, int):
            if dim == 0:
                return None  # a 0 would mean "as before"
            target.append(dim)
        elif before is not None and at < len(before) and before[at] == dim:
            target.append(0)
        else:
            target.append(-1)
    return target if target.count(-1) <= 1 else None


@dataclass(frozen=True)
class EliminateViews(NodePass):
    """Remove reshapes that leave the shape as it is, and make one of two in a row.

    Matches:   ``Reshape``, ``Flatten``, ``Squeeze``, ``Unsqueeze`` whose output has the input's shape for every size of the symbolic dims; two of
               them in a row where nothing else reads what is between them.
    Rewrites:  the node goes; two become one ``Reshape`` with a constant target, or one ``Unsqueeze`` or ``Squeeze``.
    Declines:  the target of the one ``Reshape`` would need more than one unknown dim, or would not run where a dim is empty though the two do.
    """

    name: ClassVar[str] = "eliminate-views"
    ops: ClassVar[tuple[str, ...]] = VIEWS

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Bypass or merge the node."""
        x, y = node._inputs[0], node._outputs[0]
        before, after = work.facts.shape(x), work.facts.shape(y)
        if before is not None and before == after and work.bypass(owner, node, x, "the shape stays"):
            return
        inner = work.producer(x, *VIEWS)
        if inner is None:
            return
        source = inner._inputs[0]
        shape = work.facts.shape(source)
        if shape is not None and shape == after and work.bypass(owner, node, source, "two reshapes lead back to the shape before"):
            return
        if not work.is_private(x) or work.edit.holder.get(id(inner)) is not owner:
            return
        target = reshape_target(shape, after)
        if target is not None and 0 in target and -1 in target and "Reshape" not in {inner.op, node.op}:
            target = None  # it would not run where the kept dim is empty, and these two do
        if target is not None:
            work.report.rewrote(owner, node, "merged with the reshape before it")
            set_reshape(work, node, source, target)
            return
        axes = _merged_axes(work, inner, node)
        if axes is not None and work.root.opset >= 13:
            work.report.rewrote(owner, node, "merged with the one before it")
            node.inputs = [source, work.int64(f"{y.name}_axes", axes)]


def set_reshape(work: Work, node: Node, source: Tensor, target: list[int]) -> None:
    """Make a node a ``Reshape`` of ``source`` to a constant target."""
    name = f"{node._outputs[0].name}_shape"
    work.changed_op()
    if work.root.opset >= 5:
        node.op, node.attrs = "Reshape", {}
        node.inputs = [source, work.int64(name, target)]
    else:
        node.op, node.attrs = "Reshape", {"shape": target}
        node.inputs = [source]


def _merged_axes(work: Work, inner: Node, node: Node) -> list[int] | None:
    """Give the axes of one ``Unsqueeze`` that does what two do."""
    if inner.op != "Unsqueeze" or node.op != "Unsqueeze":
        return None
    rank = work.facts.rank(inner._inputs[0])
    first, second = (_axes(n) for n in (inner, node))
    if rank is None or first is None or second is None:
        return None
    middle = rank + len(first)
    outer = middle + len(second)
    added = {a % outer for a in second}
    kept = [i for i in range(outer) if i not in added]
    return sorted([*added, *(kept[a % middle] for a in first)])


def _axes(node: Node) -> list[int] | None:
    if len(node._inputs) < 2 or not isinstance(node._inputs[1], Constant):
        return None
    return [int(a) for a in np.asarray(node._inputs[1].values).ravel()]


