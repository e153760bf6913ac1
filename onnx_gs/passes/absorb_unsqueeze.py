"""Reductions and gathers that keep, or drop, the dim by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from onnx_gs.ir.node import Node
from onnx_gs.ir.tensor import Constant, Variable
from onnx_gs.passes.rewriting import NodePass, Work

if TYPE_CHECKING:
    from onnx_gs.ir import Graph

_REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
    "ArgMax", "ArgMin",
)  # fmt: skip


@dataclass(frozen=True)
class AbsorbUnsqueeze(NodePass):
    """Let a reduction keep its dims instead of putting them back, or drop them instead of squeezing them; let a gather of one row keep its dim.

    Matches:   ``Unsqueeze`` of a reduction without ``keepdims`` over the same axes; ``Squeeze`` of one with ``keepdims`` over the same axes;
               ``Unsqueeze``, on the gathered axis, of a ``Gather`` with one constant index of rank 0. Nothing else reads what is between.
    Rewrites:  one node with ``keepdims`` the other way round, or an index of rank 1.
    Declines:  other axes.
    """

    name: ClassVar[str] = "absorb-unsqueeze"
    ops: ClassVar[tuple[str, ...]] = ("Unsqueeze", "Squeeze")

    def visit(self, work: Work, owner: Graph, node: Node) -> None:
        """Merge the node into the one before it."""
        x = node._inputs[0]
        inner = work.producer(x, *_REDUCTIONS, *(("Gather",) if node.op == "Unsqueeze" else ()))
        if inner is None or not work.is_private(x) or work.edit.holder.get(id(inner)) is not owner:
            return
        if inner.op != "Gather" and work.rounds(node._outputs[0], x):
            return
        rank = work.facts.rank(inner._inputs[0])
        axes = _axes(work, node)
        if rank is None or axes is None:
            return
        attrs: dict[str, Any] = dict(inner.attrs)
        inputs = list(inner._inputs)
        if inner.op == "Gather":
            index = inputs[1]
            axis = int(attrs.get("axis", 0)) % rank
            if not isinstance(index, Constant) or index.shape or [a % rank for a in axes] != [axis]:
                return
            inputs[1] = work.constant(f"{index.name}_row", np.asarray(index.values).reshape(1))
        else:
            keeps = bool(attrs.get("keepdims", 1))
            reduced = [int(attrs.get("axis", 0))] if inner.op.startswith("Arg") else _axes(work, inner)
            if keeps != (node.op == "Squeeze") or not reduced or sorted(a % rank for a in reduced) != sorted(a % rank for a in axes):
                return
            attrs["keepdims"] = int(not keeps)
        y = node._outputs[0]
        out = Variable(work.edit.names.fresh(f"{y.name}_kept"), y.dtype, y.shape)
        work.report.rewrote(owner, node, f"'{inner.name or inner.op}' does it")
        new = Node(inner.op, inner.name, attrs, inputs, [out], domain=inner.domain)
        work.edit.replace(owner, node, [new], [out])
        work.edit.remove(owner, inner)


def _axes(work: Work, node: Node) -> list[int] | None:
    if "axes" in node.attrs:
        return [int(a) for a in node.attrs["axes"]]
    found = work.facts.integers(node._inputs[1]) if len(node._inputs) > 1 and node._inputs[1]._name else None
    return None if found is None else list(found)
